"""Stage `evaluate` on a tiny library: scripted models and the lexical judge, the loop, REPL, judge and statistics are real."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pytest import approx

from rlm_core.files import append_jsonl, read_json, read_jsonl, write_json, write_jsonl
from rlm_core.papers import Paper
from rlm_core.params import Params, validate_params
from rlm_core.policies.base import Action, Message, PolicyError, Sampling
from rlm_core.records import Evidence, Query
from tasks import evaluate
from tasks.common import Stage, StageError, open_stage, outside_reason
from tests.stubs.openai_server import OpenAIStub

FIRST = "The drought of nineteen twelve emptied the northern reservoirs."
SECOND = "Rainfall in the southern basin doubled within eleven years."
OTHER = "Farmers of the region planted barley because it needs little water."
KEYS = {"judge_mean", "judge_ci95", "f1_mean", "format_success", "pass_at_k", "seconds_mean", "tokens_mean", "n"}


class ScriptedModel:
    """`sft` quotes the first gold passage of two, `grpo` both, `base` talks and never answers."""

    def __init__(self, name: str, calls: list[str]) -> None:
        self.name, self.calls = f"scripted {name}", calls
        self._model = name

    async def act(self, messages: Sequence[Message | Mapping[str, Any]], sampling: Sampling) -> Action:
        self.calls.append(self._model)
        passages = {"base": [], "sft": [FIRST], "grpo": [FIRST, SECOND]}[self._model]
        user = messages[-1].content if isinstance(messages[-1], Message) else messages[-1]["content"]
        if "Copy them word for word" in messages[0].content:  # type: ignore[union-attr]
            text = json.dumps([p for p in passages if p in user])
        elif self._model == "base":
            text = "Let me think about reservoirs."
        else:
            text = f"```python\nFINAL({passages!r})\n```"
        return Action(text, prompt_tokens=100, completion_tokens=10)


class ScriptedHost:
    """Stands where the vLLM server would; records which models were loaded and how often they were asked."""

    def __init__(self) -> None:
        self.max_model_len = 2048
        self.loaded: list[str] = []
        self.calls: list[str] = []

    async def load(self, folder: Path) -> ScriptedModel:
        self.loaded.append(folder.name)
        return ScriptedModel(folder.name, self.calls)

    async def __aenter__(self) -> ScriptedHost:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None


class NoTracker:
    """Takes what the stage logs."""

    run_id, experiment_id = "run", "0"

    def __init__(self) -> None:
        self.metrics: dict[str, float] = {}
        self.artifacts: list[str] = []
        self.model_metrics: dict[str, dict[str, float]] = {}

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        self.metrics.update(metrics)

    def log_artifact(self, path: Path) -> None:
        self.artifacts.append(path.as_posix())

    def log_table(self, columns: Mapping[str, Any], file: str) -> None:
        self.artifacts.append(file)

    def log_datasets(self, context: str, *paths: Path) -> None:
        assert paths

    def log_model_metrics(self, folder: Path, metrics: Mapping[str, float]) -> None:
        self.model_metrics[folder.name] = dict(metrics)


def query(number: int, paper: str, split: str = "test") -> Query:
    return Query(
        id=f"{split}{number}",
        question=f"What happened to the water in the north and south, asked {number}?",
        paper_ids=(paper,),
        evidence=(Evidence(paper, FIRST), Evidence(paper, SECOND)),
        group_id=split,
        provenance={"writer": "extractive"},
    )


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """A folder with papers, queries and model folders; the REPL's sandbox is off, as what runs in it is ours."""
    monkeypatch.chdir(tmp_path)
    for paper_id in ("p1", "p2", "v1"):
        text = f"{OTHER}\n\n{FIRST}\n{OTHER}\n\n{SECOND}\n"
        paper = Paper(id=paper_id, title=f"Waters {paper_id}", abstract="On water.", pages=(text,))
        write_json(Path(f"data/parsed/{paper_id}.json"), paper.to_dict())
    test = [query(1, "p1"), query(2, "p1"), query(3, "p2"), query(4, "p2")]
    write_jsonl(Path("data/queries/test.jsonl"), [q.to_dict() for q in test])
    write_jsonl(Path("data/queries/val.jsonl"), [query(1, "v1", "val").to_dict()])
    for name in ("base", "sft", "grpo"):
        write_json(Path(f"models/{name}/config.json"), {"name": name})
    monkeypatch.setattr(evaluate, "materialise_model", lambda name, dtype: Path("models/base"))
    monkeypatch.setattr(evaluate, "renderer_of", lambda folders: None)
    monkeypatch.setattr("tasks.traces.log_rollouts", lambda *a, **k: [])
    return tmp_path


def params(**changes: Any) -> Params:
    section = {"bootstrap_samples": 200, "concurrency": 4, **changes}
    return validate_params({"evaluate": section, "repl": {"sandbox": "none"}, "rollout": {"max_turns": 2}})


def run_stage(
    monkeypatch, host: ScriptedHost | None = None, **changes: Any
) -> tuple[dict[str, Any], ScriptedHost, NoTracker]:
    host = host or ScriptedHost()
    monkeypatch.setattr(evaluate, "make_host", lambda params, folders: host)
    tracker = NoTracker()
    evaluate.run(Stage("evaluate", params(**changes), tracker))  # type: ignore[arg-type]
    return read_json(Path("reports/evaluation.json")), host, tracker


def test_scripted_arms_get_exactly_their_figures(project, monkeypatch):
    evaluation, host, tracker = run_stage(
        monkeypatch, arms=["base", "sft", "grpo", "bm25_topk", "full_context", "no_subcalls"]
    )
    arms = evaluation["arms"]

    # no answer: precision 1, recall 1 -> 2 / 20
    assert arms["base"]["judge_mean"] == approx(0.1)
    assert arms["base"]["format_success"] == 0.0
    detail = "last turn (format): Let me think about reservoirs."
    assert arms["base"]["failures"] == {
        "out_of_turns": {"count": 4, "example": "test1.0", "query_id": "test1", "detail": detail}
    }
    assert arms["base"]["turn_errors"]["format"] == 8 + 4  # two turns and the last call, each of four
    # FIRST has 53 letters of 104: precision 10, recall 1 + round(9 * 0.51) = 6 -> 16 / 20
    letters = [sum(c.isalnum() for c in text) for text in (FIRST, SECOND)]
    recall = letters[0] / sum(letters)
    assert arms["sft"]["judge_mean"] == approx((10 + 1 + round(9 * recall)) / 20)
    assert arms["sft"]["f1_mean"] == approx(2 * recall / (1 + recall))
    assert arms["sft"]["evidence_recall_mean"] == approx(recall)
    for name in ("grpo", "no_subcalls", "full_context"):
        assert arms[name]["judge_mean"] == approx(1.0)
        assert arms[name]["judge_ci95"] == approx([1.0, 1.0])
        assert arms[name]["format_success"] == arms[name]["pass_at_k"] == 1.0
    assert arms["grpo"]["tokens_mean"] == 110
    assert arms["grpo"]["paper_f1_mean"] == arms["grpo"]["macro_f1_mean"] == 1.0
    assert arms["sft"]["macro_f1_mean"] == approx(arms["sft"]["f1_mean"])  # a single paper: the pooled measure
    assert 0.1 < arms["bm25_topk"]["judge_mean"] < 1.0
    assert (evaluation["judge"], evaluation["n"]) == ("lexical", 4)
    assert all(arm["n"] == 4 and set(arm) >= KEYS for arm in arms.values())
    assert [arms[a]["model"] for a in ("full_context", "no_subcalls")] == ["models/grpo", "models/grpo"]
    assert host.loaded == ["base", "sft", "grpo"]  # each once: arms of one model are side by side

    first = next(row for row in evaluation["comparisons"] if row["b"] == "base")
    assert (first["a"], first["family"], first["metric"]) == ("grpo", "training", "judge")
    assert first["difference"] == approx(0.9)
    # two clusters (p1, p2) that both gain: 2 of 4 sign patterns are as large; three pairs in the family
    assert first["p_value"] == approx(0.5)
    assert first["p_holm"] == 1.0
    assert (first["wins"], first["losses"], first["n"]) == (4, 0, 4)
    assert tracker.metrics["grpo.judge_mean"] == approx(1.0)
    assert "arms.json" in tracker.artifacts


def test_notes_say_what_the_table_cannot_carry(project, monkeypatch):
    evaluation, _, _ = run_stage(monkeypatch, arms=["expert", "grpo"])
    notes = "\n".join(evaluation["notes"])
    assert "ONLY 4 TEST QUERIES" in notes
    assert "2 set(s) of papers" in notes
    assert "The judge is lexical" in notes
    assert "scripted program" in notes
    assert evaluation["provenance"]["writers"] == ["extractive"]


def test_a_second_run_asks_no_model_and_gives_the_same_table(project, monkeypatch):
    arms = ["base", "grpo", "expert", "bm25_topk", "full_context"]
    first, _, _ = run_stage(monkeypatch, arms=arms)
    second, host, _ = run_stage(monkeypatch, arms=arms)
    assert second == first
    assert host.loaded == host.calls == []


def without_times(evaluation: dict[str, Any]) -> dict[str, Any]:
    """Seconds are the one figure that two runs may differ in."""
    arms = evaluation["arms"].items()
    return {**evaluation, "arms": {k: {key: v for key, v in arm.items() if "seconds" not in key} for k, arm in arms}}


def test_the_same_seeds_give_the_same_table_without_a_cache(project, monkeypatch):
    arms = ["base", "sft", "grpo", "expert", "bm25_topk", "codeact", "codeact_bm25", "summary_agent"]
    first, _, _ = run_stage(monkeypatch, arms=arms, samples_per_query=2, concurrency=1)
    shutil.rmtree(".cache")
    second, host, _ = run_stage(monkeypatch, arms=arms, samples_per_query=2, concurrency=8)
    assert host.calls
    assert {**without_times(second), "provenance": None} == {**without_times(first), "provenance": None}


def test_an_endpoint_is_an_arm_with_a_cost(project, monkeypatch):
    def reply(body: dict[str, Any]) -> str:
        return f"```python\nFINAL([{FIRST!r}])\n```"

    with OpenAIStub.in_thread(reply) as stub:
        endpoint = {"base_url": stub.url, "model": "big", "price_in_per_million": 3.0, "price_out_per_million": 15.0}
        big = {"name": "big", "policy": "endpoint", "endpoint": endpoint}
        alone = {**big, "name": "big-alone", "recursion": False, "strategy": False, "temperature": 0.0}
        evaluation, host, _ = run_stage(monkeypatch, arms=["sft", big, alone])
        asked = len(stub.posts)
        temperatures = {post["temperature"] for post in stub.posts}
        again, _, _ = run_stage(monkeypatch, arms=["sft", big, alone])
        assert len(stub.posts) == asked == 8  # one turn a query and arm; the second run asks nothing
    assert again == evaluation
    assert temperatures == {1.0, 0.0}
    assert set(host.calls) == {"sft"}
    arms = evaluation["arms"]
    assert list(arms) == ["sft", "big", "big-alone"]
    assert (arms["big"]["model"], arms["big"]["actor"], arms["big-alone"]["strategy"]) == ("big", "endpoint", False)
    assert arms["big"]["judge_mean"] == approx(arms["sft"]["judge_mean"])
    spent = arms["big"]["prompt_tokens_mean"] * 3 + arms["big"]["completion_tokens_mean"] * 15
    assert arms["big"]["cost_mean"] == approx(spent / 1e6)
    assert arms["big"]["cost_total"] == approx(4 * spent / 1e6)
    assert arms["sft"]["cost_mean"] is None
    assert {(row["a"], row["b"], row["family"]) for row in evaluation["comparisons"]} == {
        ("sft", "big", "baselines"), ("sft", "big-alone", "baselines")
    }  # fmt: skip


def test_further_temperatures_are_arms_of_their_own(project, monkeypatch):
    evaluation, host, _ = run_stage(monkeypatch, arms=["sft", "grpo", "expert"], temperatures=[0.0, 0.5])
    assert list(evaluation["arms"]) == ["sft", "sft_t0", "sft_t0.5", "grpo", "grpo_t0", "grpo_t0.5", "expert"]
    assert [evaluation["arms"][arm]["temperature"] for arm in ("grpo", "grpo_t0", "grpo_t0.5", "expert")] == [
        1.0, 0.0, 0.5, None
    ]  # fmt: skip
    assert host.loaded == ["sft", "grpo"]  # each once
    families = [(row["a"], row["b"]) for row in evaluation["comparisons"] if row["family"] == "sharpening"]
    assert families == [("grpo_t0", "sft_t0"), ("grpo_t0.5", "sft_t0.5")] * 2  # by judge and by F1


def test_arms_that_cannot_be_are_named(project, monkeypatch):
    with pytest.raises(StageError, match="two arms are called sft_t0"):
        run_stage(monkeypatch, arms=["sft", {"name": "sft_t0", "policy": "sft"}], temperatures=[0.0])


def test_new_weights_are_answered_anew_and_only_they(project, monkeypatch):
    run_stage(monkeypatch, arms=["sft", "grpo"])
    write_json(Path("models/grpo/config.json"), {"name": "other"})
    _, host, _ = run_stage(monkeypatch, arms=["sft", "grpo"])
    assert set(host.calls) == {"grpo"}
    _, host, _ = run_stage(monkeypatch, arms=["sft", "grpo"], temperature=0.5)
    assert set(host.calls) == {"sft", "grpo"}


def test_a_crash_keeps_what_was_finished(project, monkeypatch):
    class Crash(BaseException):
        pass

    host = ScriptedHost()
    original = ScriptedModel.act

    async def act(self, messages, sampling):
        if len(self.calls) == 3:
            raise Crash
        return await original(self, messages, sampling)

    monkeypatch.setattr(ScriptedModel, "act", act)
    with pytest.raises(BaseException):  # noqa: B017 - a task group may wrap it
        run_stage(monkeypatch, host, arms=["grpo"], concurrency=1)
    assert not Path("reports/evaluation.json").exists()
    monkeypatch.setattr(ScriptedModel, "act", original)
    with open(".cache/evaluate/rollouts.jsonl", "a") as out:
        out.write('{"version": 1, "key": "cut')  # as kill -9 leaves it
    evaluation, host, _ = run_stage(monkeypatch, arms=["grpo"])
    assert len(host.calls) == 1
    assert evaluation["arms"]["grpo"]["judge_mean"] == approx(1.0)


def test_a_failing_endpoint_is_unscored_and_tried_again(project, monkeypatch):
    original = ScriptedModel.act

    async def act(self, messages, sampling):
        if "asked 3" in messages[1].content:
            raise PolicyError("503 from the server")
        return await original(self, messages, sampling)

    monkeypatch.setattr(ScriptedModel, "act", act)
    evaluation, _, _ = run_stage(monkeypatch, arms=["grpo", "full_context"])
    for name in ("grpo", "full_context"):
        arm = evaluation["arms"][name]
        assert (arm["n"], arm["unscored"], arm["judge_mean"]) == (3, 1, approx(1.0))
        (cause,) = arm["failures"].items()
        assert (cause[0], cause[1]["count"], cause[1]["example"]) == ("harness", 1, "test3.0")
        assert "503 from the server" in cause[1]["detail"]
    assert any("1 of 4 samples could not be scored" in note for note in evaluation["notes"])
    monkeypatch.setattr(ScriptedModel, "act", original)
    evaluation, host, _ = run_stage(monkeypatch, arms=["grpo", "full_context"])
    assert evaluation["arms"]["grpo"]["n"] == 4
    assert len(host.calls) == 2


@pytest.mark.parametrize("harness", ["rlm", "full_context"])
def test_an_arm_whose_endpoint_answers_nothing_has_no_result(project, monkeypatch, harness):
    with OpenAIStub.in_thread(api_key="right") as refusing:
        for url, passing in (("http://127.0.0.1:9/v1", True), (refusing.url, False)):
            endpoint = {"base_url": url, "model": "big", "max_retries": 0}
            arm = {"name": "big", "policy": "endpoint", "endpoint": endpoint, "harness": harness}
            with pytest.raises(StageError, match="arm 'big': all 4 answers failed, the first: ") as stop:
                run_stage(monkeypatch, arms=["expert", arm])
            assert outside_reason(stop.value) is passing
    assert not Path("reports/evaluation.json").exists()


def test_pass_at_k_uses_all_samples(project, monkeypatch):
    evaluation, host, _ = run_stage(monkeypatch, arms=["sft", "base"], samples_per_query=3)
    assert (evaluation["arms"]["sft"]["k"], evaluation["arms"]["sft"]["pass_at_k"]) == (3, 1.0)
    assert evaluation["arms"]["base"]["pass_at_k"] == 0.0
    assert host.calls.count("sft") == 12


def test_fewer_queries_are_drawn_the_same_each_time(project, monkeypatch):
    first, _, _ = run_stage(monkeypatch, arms=["grpo"], max_queries=2)
    again, host, _ = run_stage(monkeypatch, arms=["grpo"], max_queries=2)
    assert (first["n"], host.calls) == (2, [])
    assert first == again


def test_files_for_the_report_and_plots(project, monkeypatch):
    run_stage(monkeypatch, arms=["base", "grpo"])
    rows = list(read_jsonl(Path("reports/rollouts.jsonl")))
    assert [(r["query_id"], r["arm"]) for r in rows][:4] == [
        ("test1", "base"), ("test1", "grpo"), ("test2", "base"), ("test2", "grpo"),
    ]  # fmt: skip
    assert rows[1]["judgement"]["reward"] == 1.0
    assert rows[1]["gold"][0]["text"] == FIRST
    names = {p.name for p in Path("reports/plots").iterdir()}
    assert names == {"arms.png", "cost.png", "tiers.png", "arms.csv", "tiers.csv", "samples.csv"}
    samples = Path("reports/plots/samples.csv").read_text().splitlines()
    assert samples[0].startswith("arm,query_id,sample,judge,f1,cause")
    assert len(samples) == 1 + 8


def test_missing_inputs_name_the_stage_that_makes_them(project, monkeypatch):
    Path("models/grpo/config.json").unlink()
    Path("models/grpo").rmdir()
    with pytest.raises(StageError, match="dvc repro grpo"):
        run_stage(monkeypatch, arms=["grpo"])
    Path("data/queries/val.jsonl").write_text("")
    with pytest.raises(StageError, match=r"val.jsonl, which is empty"):
        run_stage(monkeypatch, arms=["bm25_topk"])
    Path("data/queries/test.jsonl").unlink()
    with pytest.raises(StageError, match="dvc repro queries"):
        run_stage(monkeypatch, arms=["expert"])


def test_a_test_split_without_evidence_is_refused(project, monkeypatch):
    Path("data/queries/test.jsonl").write_text("")
    append_jsonl(Path("data/queries/test.jsonl"), Query(id="q", question="?", paper_ids=("p1",)).to_dict())
    with pytest.raises(StageError, match="no query with evidence"):
        run_stage(monkeypatch, arms=["expert"])


@pytest.mark.slow
def test_figures_and_traces_reach_mlflow(project, monkeypatch):
    monkeypatch.undo()
    monkeypatch.chdir(project)
    monkeypatch.setattr(evaluate, "materialise_model", lambda name, dtype: Path("models/base"))
    monkeypatch.setattr(evaluate, "renderer_of", lambda folders: None)
    monkeypatch.setattr(evaluate, "make_host", lambda params, folders: ScriptedHost())
    with open_stage("evaluate", params(arms=["base", "grpo"])) as stage:
        evaluate.run(stage)
        run = stage.tracker.client.get_run(stage.tracker.run_id)
        assert run.data.metrics["grpo.judge_mean"] == approx(1.0)
        assert {a.path for a in stage.tracker.client.list_artifacts(run.info.run_id)} >= {
            "arms.json", "comparisons.json", "failures.json", "answers.json", "evaluation.json"
        }  # fmt: skip
        import mlflow

        table = stage.tracker.client.load_table(run.info.experiment_id, "answers.json", run_ids=[run.info.run_id])
        assert list(table["arm"]) == ["base"] * 4 + ["grpo"] * 4
        assert list(table["judge"])[-1] == approx(1.0)
        traces = mlflow.search_traces(
            locations=[stage.tracker.experiment_id], filter_string="tags.arm = 'grpo'", return_type="list"
        )
        feedback = {a.name: a.feedback.value for a in traces[0].info.assessments}
        assert set(feedback) >= {"reward", "precision", "recall", "evidence_f1", "macro_f1", "paper_f1", "format"}
        assert (feedback["precision"], feedback["evidence_f1"], feedback["format"]) == (10, 1.0, True)
