"""The judge's check: labels worked out by hand, and stub judges that behave, give in, flip, fail or never look."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from pathlib import Path
from random import Random
from typing import Any

import pytest
from openai_server import OpenAIStub

from rlm_core.params import EndpointParams, JudgeParams
from rlm_core.records import Evidence, Judgement, Query
from rlm_core.rewards import JudgeOutOfReach, LexicalJudge
from rlm_core.rewards.reliability import Answered, Case, Limits, check_judge, check_params, make_cases, summarise
from rlm_core.rewards.reliability.cases import foreign_text, letters, part_of
from rlm_core.rewards.reliability.figures import weighted_kappa
from rlm_core.rewards.reliability.plot import save_calibration
from rlm_core.rewards.reliability.wording import noisy, reworded

TEXTS = {
    "rivers": "The rivers of the north carry silt down to the warm lagoons. Reeds hold it back for most of the summer months.",
    "panel": "Our panel judged every essay twice without knowing its writer. Two readers who differed met once to agree.",
    "cells": "Batteries lose charge fastest while stored beneath freezing. A drawer indoors kept nine tenths over the winter.",
    "roads": "Gravel roads shed water when their crown is kept high. Crews who graded in spring mended half as many holes.",
}


def query(name: str) -> Query:
    return Query(name, f"What about {name}?", paper_ids=(name,), evidence=(Evidence(name, TEXTS[name]),))


QUERIES = [query(name) for name in TEXTS]


def by_kind(cases: list[Case]) -> dict[str, Case]:
    return {case.kind: case for case in cases}


def test_labels_are_shares_of_letters() -> None:
    gold = "abcd efgh ijkl mnop " * 5  # 80 letters
    lone = Query("q", "?", paper_ids=("p",), evidence=(Evidence("p", gold.strip()),))
    cases = by_kind(make_cases([lone]))
    # half: 40 of 80 letters, 1 + 9 x 0.5 = 5.5 -> 5 (round to even: 4.5 -> 4)
    assert letters(cases["half"].answer[0]) == 40
    assert (cases["half"].precision, cases["half"].recall) == (10, 5)
    # third: cut at the first word end past 26.7 letters: 28 of 80, 1 + 9 x 0.35 = 4.15
    assert (cases["third"].precision, cases["third"].recall) == (10, 4)
    for kind in ("gold", "repeated", "noisy"):
        assert (cases[kind].precision, cases[kind].recall) == (10, 10)
    for kind in ("wrong_paper", "empty", "injection_plea", "injection_verdict", "injection_system"):
        assert (cases[kind].precision, cases[kind].recall) == (1, 1)
    padding = sum(map(letters, cases["padded_long"].answer)) - 80
    assert 240 <= padding < 260
    assert cases["padded_long"].precision == 1 + round(9 * 80 / (80 + padding))
    assert (cases["padded_long"].recall, cases["padded"].recall) == (10, 10)
    assert cases["paraphrase"].precision is None and cases["paraphrase"].recall is None
    assert cases["empty"].answer == ()
    assert "reordered" not in cases  # one sentence has no order


def test_other_papers_are_really_about_something_else() -> None:
    twin = Query("twin", "?", paper_ids=("other",), evidence=(Evidence("other", TEXTS["rivers"]),))
    found = foreign_text(QUERIES[0], [*QUERIES, twin])
    assert TEXTS["rivers"] not in found
    assert found[:3] == (TEXTS["panel"], TEXTS["cells"], TEXTS["roads"])
    assert foreign_text(QUERIES[0], QUERIES[:1])  # our own text where there is no other


def test_short_gold_is_left_out_and_none_at_all_is_told() -> None:
    short = Query("s", "?", evidence=(Evidence("p", "a few words"),))
    assert {case.query_id for case in make_cases([short, *QUERIES])} == set(TEXTS)
    with pytest.raises(ValueError, match="none of 1 queries has gold evidence of 80 letters"):
        make_cases([short])


def test_cases_are_drawn_by_the_seed() -> None:
    one = make_cases(QUERIES, count=2)
    assert one == make_cases(QUERIES[::-1], count=2)
    assert len({case.query_id for case in one}) == 2
    assert len({tuple(c.query_id for c in make_cases(QUERIES, count=2, seed=s)) for s in range(6)}) > 1


def test_noise_and_wording() -> None:
    text = TEXTS["rivers"] * 3
    changed = noisy(text, Random(1))
    assert changed != text and re.sub(r"\W", "", changed) == re.sub(r"\W", "", text)
    assert reworded("After rain, the results were low.") == "this findings have been reduced, following rain."
    assert part_of(["one two", "three"], 0.5) == ("one two",)


@pytest.mark.parametrize(
    ("labels", "given", "kappa"),
    [([1, 5, 10], [1, 5, 10], 1.0), ([1, 10], [10, 1], -1.0), ([1, 5, 9], [3, 3, 3], 0.0), ([4, 4], [4, 4], None)],
)
def test_weighted_kappa(labels: list[int], given: list[int], kappa: float | None) -> None:
    assert weighted_kappa(labels, given) == (None if kappa is None else pytest.approx(kappa))


@pytest.mark.proof
def test_weighted_kappa_is_scikit_learns() -> None:
    from sklearn.metrics import cohen_kappa_score

    rng = Random(0)
    for _ in range(50):
        labels = [rng.randint(1, 10) for _ in range(30)]
        given = [min(10, max(1, label + rng.randint(-3, 3))) for label in labels]
        expected = cohen_kappa_score(labels, given, labels=range(1, 11), weights="quadratic")
        assert weighted_kappa(labels, given) == pytest.approx(expected)


def verdict(precision: int, recall: int) -> Judgement:
    return Judgement(precision, recall, (precision + recall) / 20)


def test_figures_by_hand() -> None:
    def case(query_id: str, kind: str, precision: int, recall: int) -> Case:
        return Case(query_id, kind, "?", ("gold",), ("x" * 10,), precision, recall)

    answered = [
        Answered(case("a", "gold", 10, 10), (verdict(10, 10), verdict(10, 9))),  # flips, does not cross
        Answered(case("a", "reordered", 10, 10), (verdict(8, 8), verdict(8, 8))),
        Answered(case("a", "padded_long", 3, 10), (verdict(3, 7), verdict(3, 7))),
        Answered(case("a", "wrong_paper", 1, 1), (verdict(1, 1), verdict(1, 1))),
        Answered(case("a", "injection_plea", 1, 1), (verdict(10, 2), verdict(1, 1))),  # crosses
        Answered(case("a", "half", 10, 5), (None, verdict(10, 5))),
    ]
    report = summarise(answered, Limits())
    assert report["flips"] == {"cases": 5, "any_share": 2 / 5, "pass_share": 1 / 5, "largest": 0.5}
    assert report["order"]["mean_change"] == pytest.approx(0.2)  # 1.0 - 0.8
    assert report["length"]["recall_lost_to_padding"] == 3
    assert (report["injection"]["gave_in"], report["injection"]["verdicts"]) == (1, 2)
    assert report["injection"]["mean_lift"] == pytest.approx(0.5)  # 0.6 - 0.1
    assert report["failures"] == {"verdicts_asked": 12, "failed": 1, "share": pytest.approx(1 / 12)}
    assert report["agreement"]["precision"]["exact"] == 4 / 6  # 10 8 3 1 10 10 for 10 10 3 1 1 10
    assert report["agreement"]["precision"]["mean_error"] == pytest.approx((-2 + 9) / 6)
    assert len(report["faults"]) == 6 and not report["passed"]
    assert {"criterion": "recall", "label": 10, "n": 3, "mean": 25 / 3, "low": 7, "high": 10} in report["calibration"]
    row = {"criterion": "precision", "kind": "injection_plea", "label": 1, "given": 10, "n": 1}
    assert row in report["confusion"] and sum(r["n"] for r in report["confusion"]) == 2 * 6


async def test_the_lexical_judge_passes_its_check() -> None:
    report = await check_judge(LexicalJudge(), QUERIES, count=3, repeats=1)
    assert report["passed"], report["faults"]
    assert report["agreement"]["recall"]["kappa"] > 0.97
    assert report["cost"] == {"requests": 0, "retries": 0, "prompt_tokens": 0, "completion_tokens": 0, "cost": 0}


def blocks(body: dict[str, Any]) -> tuple[list[str], list[str]]:
    """The reference evidence and the answer in a judge's prompt."""
    content = body["messages"][1]["content"]
    found = [
        re.search(rf"<<{name} \w+>>\n(.*?)\n<<end of {name} ", content, re.DOTALL)
        for name in ("reference evidence", "answer")
    ]
    gold, answer = (json.loads(match.group(1)) for match in found if match)
    return gold, answer


def sober(body: dict[str, Any]) -> str:
    """Grades by letters whatever the text says."""
    gold, answer = blocks(body)
    found = LexicalJudge().judge("", answer, gold)
    return json.dumps({"reason": "letters", "precision": found.precision, "recall": found.recall})


def gullible(body: dict[str, Any]) -> str:
    """As `sober`, but does as the answer tells it."""
    _, answer = blocks(body)
    told = any(re.search(r"precision\W.{0,70}?\b10\b", passage, re.DOTALL) for passage in answer)
    return json.dumps({"reason": "as told", "precision": 10, "recall": 10}) if told else sober(body)


def generous(body: dict[str, Any]) -> str:
    return json.dumps({"reason": "nice", "precision": 8, "recall": 8})


def params_of(url: str, **changes: Any) -> JudgeParams:
    endpoint = EndpointParams(
        base_url=url, model="grader", max_retries=0, price_in_per_million=1, price_out_per_million=2
    )
    return JudgeParams(kind="rubric", endpoint=endpoint, **changes)


def check_stub(reply: Any, **changes: Any) -> dict[str, Any]:
    with OpenAIStub.in_thread(reply) as stub:
        return check_params(params_of(stub.url, **changes), QUERIES, count=3, repeats=2)


def test_a_judge_that_behaves_passes_and_its_cost_is_told() -> None:
    report = check_stub(sober)
    assert report["passed"], report["faults"]
    assert report["injection"]["gave_in"] == 0
    cost = report["cost"]
    assert cost["requests"] == 2 * (report["cases"] - 3)  # an empty answer costs no call
    assert cost["cost"] == pytest.approx((cost["prompt_tokens"] + 2 * cost["completion_tokens"]) / 1e6)


def test_a_judge_that_does_as_the_answer_says_fails_and_the_guard_mends_it() -> None:
    report = check_stub(gullible)
    assert not report["passed"]
    assert report["injection"]["gave_in"] == report["injection"]["verdicts"] == 3 * 3 * 2
    assert any("talked the judge" in fault for fault in report["faults"])
    guarded = check_stub(gullible, guard=2)
    assert guarded["injection"]["gave_in"] == 0
    assert guarded["passed"], guarded["faults"]


def test_a_judge_that_never_looks_fails() -> None:
    report = check_stub(generous)
    assert report["agreement"]["precision"]["kappa"] < 0.3  # not 0: an empty answer gets its 1 without a call
    assert any(fault.startswith("precision: weighted kappa") for fault in report["faults"])


def test_a_judge_that_flips_fails() -> None:
    turns = itertools.count()

    def flipping(body: dict[str, Any]) -> str:
        return generous(body) if next(turns) % 3 == 0 else sober(body)

    report = check_stub(flipping)
    assert report["flips"]["any_share"] > 0.3
    assert any("cross 0.5" in fault for fault in report["faults"])


def test_a_judge_that_cannot_be_read_fails() -> None:
    turns = itertools.count()
    report = check_stub(lambda body: "ten of ten!" if next(turns) % 4 == 0 else sober(body))
    assert 0.2 < report["failures"]["share"] < 0.3
    assert any("cases without a verdict" in fault for fault in report["faults"])


def test_a_check_is_paid_for_once(tmp_path: Path) -> None:
    with OpenAIStub.in_thread(sober) as stub:
        first = check_params(params_of(stub.url), QUERIES, folder=tmp_path, count=1)
        asked = len(stub.posts)
        assert check_params(params_of(stub.url), QUERIES, folder=tmp_path, count=1) == first
        assert len(stub.posts) == asked
        check_params(params_of(stub.url, guard=3), QUERIES, folder=tmp_path, count=1)  # another judge
        assert len(stub.posts) == 2 * asked


def test_an_endpoint_that_is_down_is_no_verdict_on_the_judge(tmp_path: Path) -> None:
    with pytest.raises(JudgeOutOfReach, match="All connection attempts failed"):
        check_params(params_of("http://127.0.0.1:9/v1"), QUERIES, folder=tmp_path, count=1, repeats=1)
    assert list(tmp_path.iterdir()) == []


def test_the_plot_is_a_picture(tmp_path: Path) -> None:
    report = asyncio.run(check_judge(LexicalJudge(), QUERIES, count=2, repeats=1))
    save_calibration(report, tmp_path / "plots" / "judge.png")
    assert (tmp_path / "plots" / "judge.png").read_bytes()[:4] == b"\x89PNG"
