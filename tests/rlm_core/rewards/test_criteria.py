"""Further criteria from a TOML file, and panels of judges."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from openai_server import OpenAIStub

from rlm_core.params import EndpointParams, JudgeParams
from rlm_core.records import Judgement
from rlm_core.rewards import PRECISION_RECALL, Criterion, JudgeError, PanelJudge, RubricJudge, load_criteria, make_judge
from rlm_core.rewards.criteria import weighted_reward

GOLD = ["The rivers of the north carry silt down to the warm lagoons."]
ANSWER = ["rivers of the north carry silt"]
GROUNDED = """
[weights]
recall = 2

[[criteria]]
name = "grounded"
weight = 0.5
description = "10: copied word for word. 1: invented."
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "rubric.toml"
    path.write_text(text)
    return path


def test_criteria_and_weights_are_read(tmp_path: Path) -> None:
    criteria = load_criteria(write(tmp_path, GROUNDED))
    assert criteria == (
        Criterion("precision", 1.0),
        Criterion("recall", 2.0),
        Criterion("grounded", 0.5, "10: copied word for word. 1: invented."),
    )
    # (1 x 9 + 2 x 4 + 0.5 x 6) / (10 x 3.5)
    assert weighted_reward({"precision": 9, "recall": 4, "grounded": 6}, criteria) == pytest.approx(20 / 35)
    assert load_criteria(write(tmp_path, "")) == PRECISION_RECALL


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[weights", "not TOML"),
        ("speed = 1", "unknown key 'speed'"),
        ("[weights]\nprecision = -1", "must be a number of 0 or more, got -1"),
        ("[weights]\nprecision = 0\nrecall = 0", "all weights are 0"),
        ("[[criteria]]\nname = 'recall'\ndescription = 'x'", "got 'recall'"),
        ("[[criteria]]\nname = 'tone'", "(tone): give a description"),
        ("[[criteria]]\nname = 'a'\ndescription = 'x'\n[[criteria]]\nname = 'a'\ndescription = 'y'", "stands twice"),
        ("[criteria]\nname = 'a'", "write each as [[criteria]]"),
    ],
)
def test_faults_of_the_file_are_told(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ValueError, match=r"rubric\.toml") as error:
        load_criteria(write(tmp_path, text))
    assert told in str(error.value)


async def test_the_judge_rates_further_criteria(tmp_path: Path) -> None:
    def reply(body: dict[str, Any]) -> str:
        scores = {"precision": 9, "recall": 4, "grounded": 6}
        return json.dumps({name: {"reason": f"why {score}", "score": score} for name, score in scores.items()})

    criteria = load_criteria(write(tmp_path, GROUNDED))
    async with OpenAIStub(reply) as stub:
        judge = RubricJudge(stub.url, "grader", criteria=criteria, cache_folder=tmp_path / "cache")
        found = await judge.score("q", ANSWER, GOLD)
        assert found == await judge.score("q", ANSWER, GOLD)  # from the cache
        assert (await judge.score("q", [], GOLD)).criteria["grounded"] == 1
    assert found.reward == pytest.approx(20 / 35)
    assert found.criteria == {"precision": 9, "recall": 4, "grounded": 6}
    assert found.reasons == {"precision": "why 9", "recall": "why 4", "grounded": "why 6"}
    (body,) = stub.posts
    assert body["response_format"]["json_schema"]["schema"]["required"] == ["precision", "recall", "grounded"]
    assert body["max_tokens"] == 3 * 512
    assert "grounded, 1 to 10: 10: copied word for word" in body["messages"][0]["content"]


async def test_a_missing_criterion_is_no_verdict(tmp_path: Path) -> None:
    endpoint = EndpointParams(base_url="", model="grader", max_retries=0)
    async with OpenAIStub(lambda body: '{"reason": "r", "precision": 9, "recall": 4}') as stub:
        judge = RubricJudge(
            endpoint.model_copy(update={"base_url": stub.url}), criteria=load_criteria(write(tmp_path, GROUNDED))
        )
        with pytest.raises(JudgeError, match="grounded must be an integer"):
            await judge.score("q", ANSWER, GOLD)


class Says:
    def __init__(self, precision: int | None, recall: int = 5) -> None:
        self.name = f"says {precision}"
        self._scores = None if precision is None else (precision, recall)

    async def score(self, question: str, predicted: Any, gold: Any) -> Judgement:
        if self._scores is None:
            raise JudgeError("silent")
        precision, recall = self._scores
        reasons = {"precision": f"why {precision}"}
        return Judgement(precision, recall, (precision + recall) / 20, "why", self.name, reasons=reasons)


async def test_a_panel_takes_the_mean() -> None:
    found = await PanelJudge([Says(9), Says(4)], "mean").score("q", ANSWER, GOLD)
    assert found.criteria == {"precision": 6.5, "recall": 5}
    assert found.reward == pytest.approx(11.5 / 20)
    assert found.judge == "panel-mean(says 9, says 4)"
    assert found.reasons == {"precision": "says 9: why 9; says 4: why 4"}
    with pytest.raises(JudgeError, match="1 of 3 judges failed"):
        await PanelJudge([Says(9), Says(4), Says(None)], "mean").score("q", ANSWER, GOLD)


@pytest.mark.parametrize(
    ("votes", "precision"),
    [
        ([9, 5, 7], 7),  # two of three reach 7
        ([9, 5], 5),  # more than half of two is both
        ([10, 10, 1], 10),
        ([9, 7, None], 7),  # two of three, the silent one stays in the count
        ([9, None], None),
        ([9, 8, None, None], None),  # half is no majority
    ],
)
async def test_a_panel_takes_a_strict_majority(votes: list[int | None], precision: int | None) -> None:
    panel = PanelJudge([Says(vote) for vote in votes], "majority")
    if precision is None:
        with pytest.raises(JudgeError, match="no majority"):
            await panel.score("q", ANSWER, GOLD)
    else:
        assert (await panel.score("q", ANSWER, GOLD)).precision == precision


def test_the_params_make_a_panel() -> None:
    endpoints = [EndpointParams(base_url="http://127.0.0.1:1/v1", model=name) for name in ("a", "b")]
    judge = make_judge(JudgeParams(kind="rubric", endpoint=endpoints[0], panel=(endpoints[1],), panel_rule="majority"))
    assert isinstance(judge, PanelJudge)
    assert judge.name == "panel-majority(rubric:a, rubric:b)"
    with pytest.raises(ValueError, match="names a judge twice"):
        JudgeParams(kind="rubric", endpoint=endpoints[0], panel=(endpoints[0],))
