"""Rollout trees arrive in MLflow as nested spans with the judge's scores."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlm_core.params import MlflowParams, Params
from rlm_core.records import Judgement, Rollout, Turn
from tasks import tracking
from tasks.traces import log_rollouts


def make_tree(name: str) -> Rollout:
    child = Rollout(
        f"{name}.0", parent_id=name, depth=1, parent_turn=0, turns=(Turn("c", model_seconds=2.0),), answer=["x"]
    )
    turns = (Turn("a", "seen", model_seconds=1.0, repl_seconds=0.5), Turn("b", model_seconds=1.0))
    return Rollout(name, question="where?", query_id="q", turns=turns, children=(child,), answer=["x"])


@pytest.fixture(scope="module")
def params(tmp_path_factory: pytest.TempPathFactory) -> Params:
    store = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    return Params(mlflow=MlflowParams(tracking_uri=f"sqlite:///{store}"))


def test_a_tree_becomes_nested_spans_with_feedback(
    params: Params, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    monkeypatch.chdir(tmp_path)
    reasons = {"precision": "mostly quoted", "grounded": "one word changed"}
    judgement = Judgement(8, 4, 0.6, "half of it", "lexical", {"grounded": 7.0}, reasons)
    with tracking.stage_run("evaluate", params) as tracker:
        trees = [make_tree(f"q.{i}") for i in range(3)]
        log_rollouts(tracker, trees, [judgement, None, judgement], step=7, limit=2)
        assert tracker.flush()
    found = mlflow.search_traces(locations=[tracker.experiment_id], run_id=tracker.run_id, return_type="list")
    traces = {t.data.spans[0].name: t for t in found}
    assert set(traces) == {"rollout q.0", "rollout q.1"}

    trace = traces["rollout q.0"]
    names = sorted(s.name for s in trace.data.spans)
    assert names == ["child q.0.0", "rollout q.0", "turn 1", "turn 1", "turn 2"]  # the child has a turn of its own
    spans = {s.name: s for s in trace.data.spans}
    child = spans["child q.0.0"]
    by_id = {s.span_id: s for s in trace.data.spans}
    assert by_id[child.parent_id].name == "turn 1"
    # turns 1 + 0.5 + the child's 2, then 1
    root = spans["rollout q.0"]
    assert (root.end_time_ns - root.start_time_ns) / 1e9 == pytest.approx(4.5, abs=1e-3)
    assert trace.info.tags["step"] == "7"
    scores = {a.name: a.feedback.value for a in trace.info.assessments}
    assert scores == {"reward": 0.6, "precision": 8, "recall": 4, "grounded": 7.0}
    assert {a.name: a.rationale for a in trace.info.assessments if a.rationale} == {"reward": "half of it", **reasons}
    assert traces["rollout q.1"].info.assessments == []  # an unjudged tree has no score, not a zero


def test_a_missing_judgement_is_refused(params: Params, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with tracking.stage_run("teach", params) as tracker, pytest.raises(ValueError, match="1 rollouts but 0 judgements"):
        log_rollouts(tracker, [make_tree("q.0")], [])
