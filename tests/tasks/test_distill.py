"""The stage `distill` on hand-made teacher rollouts, with the real tokenizer and judge."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rlm_core.files import write_jsonl
from rlm_core.params import Params, validate_params
from rlm_core.policies import ChatRenderer, load_tokenizer, materialise_model
from rlm_core.records import ErrorClass, Evidence, Query, Rollout, Turn
from tasks import distill
from tasks.common import StageError, open_stage

MODELS = Path(__file__).resolve().parents[2] / ".cache" / "models"
GOLD = "Rainfall in the southern basin doubled within eleven years."
LOOK = "```python\nfound = search('rainfall')\nprint(found)\n```"


def teacher(query: str, sample: int, answer: str, *turns: Turn) -> Rollout:
    return Rollout(
        f"{query}.{sample}",
        query_id=query,
        opening=(("system", "You read papers."), ("user", "Question: rain?")),
        turns=turns,
        answer=[answer],
    )


@pytest.fixture
def params(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Params:
    monkeypatch.chdir(tmp_path)
    queries = [Query(f"q{i}", "rain?", paper_ids=("p",), evidence=(Evidence("p", GOLD),)) for i in range(3)]
    write_jsonl(Path("data/queries/train.jsonl"), [q.to_dict() for q in queries[:2]])
    write_jsonl(Path("data/queries/val.jsonl"), [queries[2].to_dict()])
    look, slip = Turn(LOOK, "a hit", cue="Turn 1 of 4"), Turn("FINAL(found)", cue="Turn 2 of 4")
    right = Turn("```python\nFINAL_VAR('found')\n```", cue="Turn 2 of 4")
    error = Turn("```python\nfind()\n```", "NameError", cue="Turn 1 of 4", error=ErrorClass.CODE)
    last = Turn("```python\nFINAL('never')\n```", cue="Turn 3 of 4")
    trees = [
        teacher("q0", 0, GOLD, look, slip),
        teacher("q0", 1, "barley grows well", look, right),
        teacher("q1", 0, GOLD, error, look, last),
        teacher("q1", 1, GOLD, last),
        teacher("q2", 0, GOLD, look, right),
    ]
    write_jsonl(Path("data/teacher/rollouts.jsonl"), [t.to_dict() for t in trees])
    return validate_params({"model": {"name": str(materialise_model("tiny-random", folder=MODELS).resolve())}})


def test_rows_and_report(params: Params):
    with open_stage("distill", params) as stage:
        distill.run(stage)
    renderer = ChatRenderer(load_tokenizer(params.model.name))
    train = pq.read_table("data/sft/train.parquet").to_pylist()
    val = pq.read_table("data/sft/val.parquet").to_pylist()
    said = [(r["node_id"], r["turn"], renderer.decode(r["completion_ids"])) for r in train]
    assert said == [
        ("q0.0", 0, LOOK),
        ("q0.0", 1, "FINAL_VAR(found)"),  # mended
        ("q1.0", 1, LOOK),  # after the error, which is read and not learned
        ("q1.0", 2, "```python\nFINAL('never')\n```"),
    ]
    # q2's first turn is word for word q0's, so only its second is a row.
    assert [(r["node_id"], r["turn"], r["role"]) for r in val] == [("q2.0", 1, "root")]
    assert train[0]["reward"] == pytest.approx(1.0) and train[0]["query_id"] == "q0"
    report = json.loads(Path("reports/distill.json").read_text())
    dropped = {row["name"]: row["dropped"] for row in report["filters"]}
    assert dropped["low_score"] == 1 and dropped["single_turn"] == 1 and dropped["repl_error"] == 1
    assert (report["train_rows"], report["val_rows"], report["judge"]) == (4, 1, "lexical")
    assert report["repair"]["share_final_slips"] == pytest.approx(1 / 7)
    assert stage.metrics["rows_train"] == 4
    assert report["judge_check"] is None and report["judge_cost"]["requests"] == 0
    assert Path("reports/distill.png").read_bytes()[:4] == b"\x89PNG"


def test_long_rows_are_dropped_by_characters(params: Params):
    # each row reads 20 characters of system text, the question, its cue and what came before
    strict = params.model_copy(update={"distill": params.distill.model_copy(update={"max_row_chars": 256})})
    with open_stage("distill", params) as stage:
        distill.run(stage)
        before = json.loads(Path("reports/distill.json").read_text())
        stage.params = strict
        distill.run(stage)
    after = json.loads(Path("reports/distill.json").read_text())
    dropped = [{row["name"]: row["dropped"] for row in report["filters"]} for report in (before, after)]
    assert dropped[0]["over_length"] == 0
    assert (
        dropped[1]["over_length"] == before["train_rows"] + before["val_rows"] - after["train_rows"] - after["val_rows"]
    )


def test_faults_are_named(params: Params):
    strict = params.model_copy(update={"distill": params.distill.model_copy(update={"min_reward": 1.0})})
    with (
        open_stage("distill", strict) as stage,
        pytest.raises(StageError, match=r"no turn of 5 teacher rollouts passed"),
    ):
        distill.run(stage)
    assert Path("reports/distill.json").exists()  # it says why
    assert not Path("data/sft").exists()
    write_jsonl(Path("data/queries/val.jsonl"), [])
    with open_stage("distill", params) as stage, pytest.raises(StageError, match=r"rollouts of 1 queries .*'q2'"):
        distill.run(stage)
    Path("data/teacher/rollouts.jsonl").unlink()
    with open_stage("distill", params) as stage, pytest.raises(StageError, match="stage 'teach' makes it"):
        distill.run(stage)
