"""Stage `teach`: expert and endpoint, resumed after kill -9, failures left out."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rlm_core.files import read_jsonl, write_json, write_jsonl
from rlm_core.params import Params, validate_params
from rlm_core.records import ErrorClass, Evidence, Query, Rollout, Status
from rlm_core.rollouts import read_rollouts
from tasks import teach
from tasks.common import Stage, StageError, outside_reason

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "stubs"))

SUBJECTS = ("stomatal conductance", "chlorophyll content", "root biomass", "leaf temperature", "seed weight")
FILLER = "Plants were watered every morning and weighed once a week by two people. " * 3


class Tracker:
    """What the stage logs."""

    def __init__(self) -> None:
        self.metrics: dict[str, float] = {}
        self.traces: list[tuple[str, Any]] = []

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        self.metrics.update(metrics)

    def log_datasets(self, context: str, *paths: Path) -> None:
        assert context == "training"
        assert all(path.exists() for path in paths)


def paragraph(subject: str, number: int) -> str:
    return f"We measured {subject} in trial {number}, and it rose by {number} percent over the whole summer."


def make_query(split: str, subject: str, number: int) -> Query:
    paper = f"paper{number}"
    return Query(
        id=f"{split}-{subject.split()[0]}-{number}",
        question=f"What does the paper say about {subject} in trial {number}?",
        paper_ids=(paper,),
        evidence=(Evidence(paper, paragraph(subject, number)),),
    )


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Eight papers in the current folder; 5 questions on each of six for training, 5 on each of two for validation."""
    for number in range(8):
        text = "\n\n".join([FILLER, *(paragraph(subject, number) for subject in SUBJECTS), FILLER])
        row = {"id": f"paper{number}", "title": f"Trial {number}", "abstract": "", "pages": [text]}
        write_json(tmp_path / f"data/parsed/paper{number}.json", row)
    for split, numbers in (("train", range(6)), ("val", range(6, 8))):
        queries = [make_query(split, subject, number) for number in numbers for subject in SUBJECTS]
        write_jsonl(tmp_path / f"data/queries/{split}.jsonl", [query.to_dict() for query in queries])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        teach,
        "log_rollouts",
        lambda tracker, trees, verdicts, limit: tracker.traces.extend(zip(trees, verdicts, strict=True)),
    )
    return tmp_path


def run_stage(**changes: Any) -> Tracker:
    data: dict[str, Any] = {"teach": {"noise": 0.0, "rollouts_per_query": 2}, **changes}
    tracker = Tracker()
    teach.run(Stage("teach", validate_params(data), tracker))  # type: ignore[arg-type]
    return tracker


def test_the_expert_teaches_train_then_val(project: Path) -> None:
    tracker = run_stage()
    trees = list(read_rollouts(teach.OUT))
    assert len(trees) == 80
    expected = [q["id"] for split in ("train", "val") for q in read_jsonl(Path(f"data/queries/{split}.jsonl"))]
    assert [tree.id for tree in trees] == [f"{id}.{sample}" for id in expected for sample in (0, 1)]
    assert {tree.status for tree in trees} == {Status.ANSWERED}
    assert all("it rose by" in tree.answer[0] for tree in trees)
    assert tracker.metrics["trees"] == 80
    assert tracker.metrics["answered_share"] == 1.0
    assert tracker.metrics["turns_per_node"] == 2.0
    assert tracker.metrics["error_turn_share"] == 0.0
    assert tracker.metrics["failed_trees"] == 0
    assert 0.5 < tracker.metrics["reward_mean"] <= 1.0
    assert len(tracker.traces) == 8
    assert all(verdict.judge == "lexical" for _, verdict in tracker.traces)


def test_noise_leaves_mistakes_for_the_filters(project: Path) -> None:
    tracker = run_stage(teach={"noise": 0.4, "rollouts_per_query": 2})
    errors = [turn.error for tree in read_rollouts(teach.OUT) for turn in tree.turns]
    share = sum(error is not ErrorClass.NONE for error in errors) / len(errors)
    assert tracker.metrics["error_turn_share"] == pytest.approx(share)
    assert share > 0.05
    assert tracker.metrics["error_share_code"] == errors.count(ErrorClass.CODE) / len(errors)


def test_max_queries_draws_from_both_splits(project: Path) -> None:
    run_stage(teach={"max_queries": 8, "rollouts_per_query": 1, "noise": 0.0})
    ids = [tree.query_id for tree in read_rollouts(teach.OUT)]
    assert len(ids) == 8
    assert sum(id.startswith("val") for id in ids) == 2  # 8 * 10 / 40


def stored() -> list[dict[str, Any]]:
    path = Path(".cache/teach/rollouts.jsonl")
    return list(read_jsonl(path, allow_cut_tail=True)) if path.exists() else []


def texts(trees: list[Rollout]) -> list[list[str]]:
    return [[turn.text for node in tree.walk() for turn in node.turns] for tree in trees]


@pytest.mark.slow
def test_killed_at_any_moment_it_goes_on_and_pays_for_nothing_twice(project: Path) -> None:
    (project / "params.yaml").write_text("teach: {noise: 0.2, rollouts_per_query: 10, concurrency: 2}\n")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tasks.teach"]
    started = subprocess.Popen(command, env=environment, cwd=project, start_new_session=True, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while len(stored()) < 20:
            assert started.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        started.send_signal(signal.SIGKILL)
        started.wait()
    before = stored()
    assert 20 <= len(before) < 400
    assert not teach.OUT.exists()

    again = subprocess.run(command, env=environment, cwd=project, capture_output=True, text=True, timeout=120)
    assert again.returncode == 0, again.stderr
    assert f"{len(before)} of 400 trees were finished before" in again.stderr
    after = stored()
    assert after[: len(before)] == before  # nothing was done again
    assert len({row["key"] for row in after}) == len(after) == 400
    broken_run = texts(list(read_rollouts(teach.OUT)))

    run_stage(teach={"noise": 0.2, "rollouts_per_query": 10})
    assert len(stored()) == 400  # the same keys, whatever the concurrency
    Path(".cache/teach/rollouts.jsonl").unlink()
    run_stage(teach={"noise": 0.2, "rollouts_per_query": 10})
    assert texts(list(read_rollouts(teach.OUT))) == broken_run  # as an unbroken run


def reply(body: dict[str, Any]) -> str:
    """A teacher that searches for the question's subject and answers with the first passage."""
    if len(body["messages"]) > 2:
        return "```python\nFINAL([hits[0]])\n```"
    question = body["messages"][1]["content"].removeprefix("Question: ")
    subject = next(subject for subject in SUBJECTS if subject in question)
    return f"```python\nhits = search({json.dumps(subject)})\nprint(hits)\n```"


def endpoint(url: str) -> dict[str, Any]:
    return {"base_url": url, "model": "stub", "max_retries": 0, "timeout_seconds": 5}


def test_an_endpoint_teaches_and_its_failures_are_left_out_until_the_next_run(project: Path) -> None:
    from openai_server import Fault, OpenAIStub

    with OpenAIStub.in_thread(reply) as stub:
        stub.faults.extend([Fault()] * 2 + [Fault(status=500)] * 3)
        changes = {
            "teach": {
                "policy": "endpoint",
                "endpoint": endpoint(stub.url),
                "rollouts_per_query": 1,
                "max_queries": 10,
                "concurrency": 1,
            }
        }
        tracker = run_stage(**changes)
        trees = list(read_rollouts(teach.OUT))
        assert (len(trees), tracker.metrics["failed_trees"]) == (7, 3)
        assert {tree.status for tree in trees} == {Status.ANSWERED}
        assert tracker.metrics["completion_tokens"] > 0

        asked = len(stub.requests)
        tracker = run_stage(**changes)
        assert (tracker.metrics["trees"], tracker.metrics["failed_trees"]) == (10, 0)
        assert len(stub.requests) - asked == 3 * 2  # only the failed trees, two turns each


def test_an_endpoint_that_is_down_is_said_so_early(project: Path) -> None:
    teacher = {"policy": "endpoint", "endpoint": endpoint("http://127.0.0.1:9/v1"), "concurrency": 4}
    with pytest.raises(StageError, match=r"8 trees in a row failed.*The last: .*127\.0\.0\.1:9"):
        run_stage(teach=teacher)
    assert not teach.OUT.exists()


def test_an_endpoint_that_dies_is_waited_for_and_one_that_refuses_is_not(project: Path) -> None:
    """What was finished by then is kept: the next try pays for the rest only."""
    from openai_server import Fault, OpenAIStub

    with OpenAIStub.in_thread(reply) as stub:
        teacher = {"policy": "endpoint", "endpoint": endpoint(stub.url), "rollouts_per_query": 1, "concurrency": 1}
        teacher["max_queries"] = 12
        for fault, passing in ((Fault(status=503), True), (Fault(status=401), False)):
            stub.faults.extend([Fault()] * 2 + [fault] * 8)
            with pytest.raises(StageError, match="8 trees in a row failed; those finished are kept") as stop:
                run_stage(teach=teacher)
            assert outside_reason(stop.value) is passing
            assert not teach.OUT.exists()
        asked = len(stub.requests)
        assert run_stage(teach=teacher).metrics["trees"] == 12
        assert len(stub.requests) - asked == (12 - 2) * 2  # two turns each; one tree a try had been finished


def test_missing_inputs_name_the_stage_that_makes_them(project: Path) -> None:
    Path("data/queries/val.jsonl").unlink()
    with pytest.raises(StageError, match=r"val\.jsonl is missing; stage 'queries' makes it"):
        run_stage()
    Path("data/queries/val.jsonl").touch()
    Path("data/parsed/paper0.json").unlink()
    with pytest.raises(StageError, match=r"needs the paper.s. paper0, which are not in the library"):
        run_stage()
    Path("data/queries/train.jsonl").write_text("")
    with pytest.raises(StageError, match=r"train\.jsonl has no questions"):
        run_stage()


def test_keys_tell_teachers_apart() -> None:
    params = [
        Params(),
        validate_params({"teach": {"noise": 0.3}}),
        validate_params({"seed": 1}),
        validate_params({"teach": {"policy": "endpoint", "endpoint": {"base_url": "http://a/v1", "model": "m"}}}),
        validate_params({"teach": {"policy": "endpoint", "endpoint": {"base_url": "http://a/v1", "model": "n"}}}),
    ]
    identities = [json.dumps(teach.teacher_identity(p), sort_keys=True) for p in params]
    assert len(set(identities)) == 5
    assert teach.teacher_identity(validate_params({"teach": {"concurrency": 3}})) == teach.teacher_identity(Params())


def test_multi_paper_questions_have_their_own_number_of_rollouts(project: Path) -> None:
    rows = [Query.from_dict(row) for row in read_jsonl(Path("data/queries/train.jsonl"))]
    pair = Query("pair", rows[0].question, kind="multi", paper_ids=("paper0", "paper1"), evidence=rows[0].evidence)
    write_jsonl(Path("data/queries/train.jsonl"), [rows[0].to_dict(), pair.to_dict()])
    write_jsonl(Path("data/queries/val.jsonl"), [])
    run_stage(teach={"noise": 0.0, "rollouts_per_query": 1, "rollouts_per_multi_query": 3})
    assert [tree.id for tree in read_rollouts(teach.OUT)] == [f"{rows[0].id}.0", "pair.0", "pair.1", "pair.2"]


def test_cost_is_estimated_logged_and_bounded(project: Path, caplog: pytest.LogCaptureFixture) -> None:
    from openai_server import OpenAIStub

    caplog.set_level("INFO")
    with OpenAIStub.in_thread(reply) as stub:
        priced = endpoint(stub.url) | {"price_in_per_million": 1.0, "price_out_per_million": 2.0}
        taught = {"policy": "endpoint", "endpoint": priced, "rollouts_per_query": 1, "concurrency": 1}
        with pytest.raises(StageError, match=r"projected cost .* passes teach.max_cost .* 8 of 40 trees"):
            run_stage(teach=taught | {"max_cost": 1e-6})
        assert len(stored()) == 8  # finished trees stay
        tracker = run_stage(teach=taught | {"max_queries": 10})
    assert "at most" in caplog.text and "projected from 8 trees" in caplog.text
    spent = (tracker.metrics["prompt_tokens"] + 2 * tracker.metrics["completion_tokens"]) / 1e6
    assert tracker.metrics["cost"] == pytest.approx(spent)
    assert tracker.metrics["cost_per_tree"] == pytest.approx(spent / 10)
    with pytest.raises(ValueError, match=r"teach\.max_cost needs teach\.endpoint\.price"):
        validate_params({"teach": {"policy": "endpoint", "endpoint": endpoint("http://a/v1"), "max_cost": 1}})
