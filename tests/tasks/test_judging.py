"""A stage's judge: refused while it fails its own check, used and said so where the params allow it, checked once."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from rlm_core.files import write_jsonl
from rlm_core.params import validate_params
from rlm_core.records import Evidence, Query
from rlm_core.rewards import LexicalJudge, PanelJudge, RubricJudge
from tasks.common import Stage, StageError, outside_reason
from tasks.judging import note_on, open_guard_judge, open_judge

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "stubs"))

TEXTS = (
    "The rivers of the north carry silt down to the warm lagoons. Reeds hold it back for most of the summer months.",
    "Our panel judged every essay twice without knowing its writer. Two readers who differed met once to agree.",
    "Batteries lose charge fastest while stored beneath freezing. A drawer indoors kept nine tenths over the winter.",
)


class Tracker:
    def __init__(self) -> None:
        self.metrics: dict[str, float] = {}

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        self.metrics.update(metrics)


@pytest.fixture(autouse=True)
def queries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [
        Query(f"q{i}", "What?", paper_ids=(f"p{i}",), evidence=(Evidence(f"p{i}", t),)) for i, t in enumerate(TEXTS)
    ]
    write_jsonl(Path("data/queries/train.jsonl"), [row.to_dict() for row in rows])


def stage_of(**judge: Any) -> Stage:
    return Stage("distill", validate_params({"judge": judge}), Tracker())  # type: ignore[arg-type]


def rubric(url: str, **changes: Any) -> dict[str, Any]:
    return {"kind": "rubric", "endpoint": {"base_url": url, "model": "grader", "max_retries": 0}, **changes}


def sober(body: dict[str, Any]) -> str:
    """Grades by letters: reads the prompt's two JSON blocks."""
    content = body["messages"][1]["content"]
    gold = json.loads(content.split("<<reference evidence ")[1].split(">>\n", 1)[1].split("\n<<end of ")[0])
    answer = json.loads(content.split("<<answer ")[1].split(">>\n", 1)[1].split("\n<<end of ")[0])
    found = LexicalJudge().judge("", answer, gold)
    return json.dumps({"reason": "letters", "precision": found.precision, "recall": found.recall})


def constant(body: dict[str, Any]) -> str:
    return json.dumps({"reason": "nice", "precision": 9, "recall": 9})


def test_the_lexical_judge_needs_no_check() -> None:
    judge, check = open_judge(stage_of(kind="lexical"))
    assert isinstance(judge, LexicalJudge)
    assert check is None


def test_a_judge_that_fails_stops_the_stage() -> None:
    from openai_server import OpenAIStub

    with OpenAIStub.in_thread(constant) as stub:
        with pytest.raises(StageError, match=r"fails its own check: .*weighted kappa.*judge.check: report"):
            open_judge(stage_of(**rubric(stub.url)))
        asked = len(stub.posts)
        assert asked > 0
        stage = stage_of(**rubric(stub.url, check="report"))
        judge, check = open_judge(stage)
        assert len(stub.posts) == asked  # the check was paid for
    assert isinstance(judge, RubricJudge)
    assert check is not None
    assert not check["passed"]
    assert any("talked the judge" in fault for fault in check["faults"])
    assert stage.metrics["judge_check_gave_in_share"] == 1.0
    (note,) = note_on(check)
    assert note.startswith("UNSOUND judge: it fails its own check and was used all the same: ")


def test_the_held_out_judge_is_checked_too() -> None:
    from openai_server import OpenAIStub

    def stage_with(**guard: Any) -> Stage:
        return Stage("grpo", validate_params({"grpo": {"guard_judge": guard}}), Tracker())  # type: ignore[arg-type]

    with OpenAIStub.in_thread(constant) as stub:
        told = (
            r"grpo\.guard_judge: rubric:grader fails its own check: .*go on with it by grpo\.guard_judge\.check: report"
        )
        with pytest.raises(StageError, match=told):
            open_guard_judge(stage_with(**rubric(stub.url)))
        stage = stage_with(**rubric(stub.url, check="report"))
        judge, check = open_guard_judge(stage)
    assert isinstance(judge, RubricJudge)
    assert check is not None
    assert not check["passed"]
    assert set(stage.metrics) >= {"guard_judge_check_gave_in_share", "guard_judge_check_failed_share"}
    assert open_guard_judge(stage_of(kind="lexical")) == (None, None)


def test_a_judge_that_passes_is_used() -> None:
    from openai_server import OpenAIStub

    with OpenAIStub.in_thread(sober) as stub:
        judge, check = open_judge(stage_of(**rubric(stub.url)))
    assert isinstance(judge, RubricJudge)
    assert check is not None
    assert check["passed"]
    assert check["kappa_recall"] > 0.95
    assert note_on(check)[0].startswith("The judge passed its own check")
    assert note_on(None) == []


def test_a_panel_is_checked_as_one() -> None:
    from openai_server import OpenAIStub

    with OpenAIStub.in_thread(sober) as good, OpenAIStub.in_thread(constant) as bad:
        more = [{"base_url": url, "model": f"m{i}", "max_retries": 0} for i, url in enumerate((good.url, bad.url))]
        judge, check = open_judge(stage_of(**rubric(good.url, panel=more, panel_rule="majority")))
    assert isinstance(judge, PanelJudge)
    assert judge.name == "panel-majority(rubric:grader, rubric:m0, rubric:m1)"
    assert check is not None
    assert check["passed"]  # two sober judges outvote one that never looks


@pytest.mark.parametrize("check", ["require", "report"])
def test_a_judge_that_cannot_be_reached_is_no_bad_judge(check: str) -> None:
    """A dead server is worth another try; a refused key is told at once."""
    from openai_server import OpenAIStub

    with pytest.raises(StageError, match=r"judge: .*127\.0\.0\.1:9.*no usable answer") as stop:
        open_judge(stage_of(**rubric("http://127.0.0.1:9/v1", check=check)))
    assert outside_reason(stop.value)
    with OpenAIStub.in_thread(sober, api_key="right") as stub:
        with pytest.raises(StageError, match=r"HTTP 401.*OPENAI_API_KEY") as stop:
            open_judge(stage_of(**rubric(stub.url, check=check)))
        assert len(stub.posts) < 40, "nobody is asked further once it is clear that none answers"
    assert not outside_reason(stop.value)


def test_what_cannot_be_checked_is_told() -> None:
    write_jsonl(Path("data/queries/train.jsonl"), [])
    with pytest.raises(StageError, match="Give more queries, or take the judge unchecked"):
        open_judge(stage_of(**rubric("http://127.0.0.1:9/v1")))
    Path("rubric.toml").write_text("[weights]\nspeed = 2\n")
    with pytest.raises(StageError, match=r"rubric\.toml: \[weights\] holds precision and recall alone"):
        open_judge(stage_of(**rubric("http://127.0.0.1:9/v1", criteria="rubric.toml")))
