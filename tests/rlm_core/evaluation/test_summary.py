"""Samples, arms' figures, notes and the text table, by hand."""

from __future__ import annotations

from typing import Any

import pytest
from pytest import approx

from rlm_core.evaluation.arms import MODELS, plan_arms
from rlm_core.evaluation.comparisons import Pair, clusters_of, comparisons_of
from rlm_core.evaluation.notes import notes_on, sharpening_notes
from rlm_core.evaluation.scoring import Cause, Sample, chosen_papers, paper_selection, score_sample
from rlm_core.evaluation.summary import Summary, counts_up_to, failures_of, quantile
from rlm_core.evaluation.table import render_table
from rlm_core.params import EndpointParams
from rlm_core.records import ErrorClass, Evidence, Judgement, Query, Rollout, Status, Turn, Usage
from rlm_core.rewards import PRF

GOLD = "The drought of nineteen twelve emptied the northern reservoirs."


def query(id: str = "q1", papers: tuple[str, ...] = ("p1",), **changes: Any) -> Query:
    context = {p: {"title": p, "abstract": "", "text": f"Paper {p} says: {GOLD if p == 'p1' else 'barley grows well ' * 3}"}
               for p in ("p1", "p2")}  # fmt: skip
    return Query(id, "What?", evidence=tuple(Evidence(p, GOLD) for p in papers), context=context, **changes)


def verdict(reward: float) -> Judgement:
    return Judgement(round(reward * 10), round(reward * 10), reward, judge="lexical")


def sample(query_id: str, reward: float | None, number: int = 0, f1: float = 0.5, cause: Cause = Cause.NONE) -> Sample:
    return Sample(
        query_id, number, f"{query_id}.{number}", None if reward is None else verdict(reward), PRF(f1, f1, f1), PRF(1, 1, 1),
        cause is Cause.NONE, cause, 2.0, 90, 10, None, 2, 1, {"code": 1}, by_paper=PRF(0.2, 0.4, 0.3),
    )  # fmt: skip


# ---- one sample


def test_a_sample_carries_its_figures():
    child = Rollout("q1.0.0", turns=(Turn(error=ErrorClass.CODE),))
    rollout = Rollout(
        "q1.0", turns=(Turn(error=ErrorClass.CODE), Turn()), children=(child,), answer=[GOLD],
        usage=Usage(90, 10, 3, 3, 1, wall_seconds=4.0), provenance={"sample": 0},
    )  # fmt: skip
    found = score_sample(query(), rollout, verdict(1.0))
    assert (found.reward, found.overlap, found.papers, found.cause) == (1.0, PRF(1, 1, 1), PRF(1, 1, 1), Cause.NONE)
    assert (found.seconds, found.tokens, found.completion_tokens, found.turns, found.children) == (4.0, 100, 10, 2, 1)
    assert (found.cost, found.detail, found.by_paper) == (None, "", PRF(1, 1, 1))
    twice = score_sample(query(papers=("p1", "p2")), rollout, verdict(1.0))
    assert twice.overlap == PRF(1, 1, 1) and twice.by_paper == PRF(0.5, 0.5, 0.5)  # the passage stands in p1 alone
    prices = EndpointParams(base_url="http://h/v1", model="m", price_in_per_million=2.0, price_out_per_million=30.0)
    assert score_sample(query(), rollout, verdict(1.0), prices=prices).cost == approx((90 * 2 + 10 * 30) / 1e6)
    assert found.turn_errors == {"code": 2}
    assert (found.passed, found.ended_in_answer) == (True, True)


@pytest.mark.parametrize(
    ("changes", "reward", "cause"),
    [
        ({"status": Status.FAILED, "failure": "refused"}, 1.0, Cause.HARNESS),
        ({"children": (Rollout("c", status=Status.FAILED),), "answer": [GOLD]}, 1.0, Cause.HARNESS),
        ({"answer": [GOLD]}, None, Cause.JUDGE),
        ({"status": Status.OUT_OF_TURNS}, 0.1, Cause.OUT_OF_TURNS),
        ({"status": Status.OUT_OF_BUDGET, "answer": [GOLD]}, 1.0, Cause.OUT_OF_BUDGET),
        ({"answer": []}, 0.1, Cause.EMPTY),
        ({"answer": None}, 0.1, Cause.EMPTY),
        ({"answer": ["Barley was planted upon every hill of the region that year."]}, 0.1, Cause.NO_EVIDENCE),
        ({"answer": ["barley grows well barley grows"]}, 0.1, Cause.WRONG_PAPER),
        ({"answer": [GOLD, "barley grows well barley grows"]}, 0.4, Cause.PADDED),
        ({"answer": [GOLD[:40]]}, 0.4, Cause.INCOMPLETE),
        ({"answer": ["The reservoirs ran dry."]}, 0.8, Cause.NONE),  # a judge that reads meaning passes a paraphrase
        ({"answer": [GOLD]}, 1.0, Cause.NONE),
    ],
)
def test_causes(changes, reward, cause):
    found = score_sample(query(), Rollout("q1.0", **changes), None if reward is None else verdict(reward))
    assert found.cause is cause
    if cause is Cause.HARNESS:  # unscored, whatever it said
        assert (found.reward, found.overlap, found.papers, found.ended_in_answer, found.passed) == (None,) * 5
    assert (found.detail == "") == (cause is Cause.NONE)


def test_details_tell_where_it_stopped():
    turns = (Turn(text="```python\nsearch('x')\n```"), Turn(text="Let me\nthink. " * 40, error=ErrorClass.LENGTH))
    found = score_sample(query(), Rollout("q1.0", status=Status.OUT_OF_TURNS, turns=turns), verdict(0.1))
    assert found.detail.startswith("last turn (length): Let me think. Let me")
    assert len(found.detail) == 200
    found = score_sample(query(), Rollout("q1.0", status=Status.FAILED, failure="503 from the server"), None)
    assert found.detail == "q1.0: 503 from the server"


def test_papers_are_told_by_what_is_quoted_and_named():
    def selection(*answer: Any) -> tuple[float, float, float]:
        found = paper_selection(query(), chosen_papers(query(), list(answer)))
        return found.precision, found.recall, found.f1

    assert selection(GOLD) == (1, 1, 1)
    assert selection(GOLD.upper().replace(" ", "\n")) == (1, 1, 1)
    assert selection("barley grows well barley") == (0, 0, 0)
    assert selection(GOLD, "barley grows well barley") == approx((1 / 2, 1, 2 / 3))
    assert selection() == (0, 0, 0)
    assert selection({"paper": "p1", "text": "retold in other words"}) == (1, 1, 1)
    assert selection({"p2": "retold"}, "p1") == approx((1 / 2, 1, 2 / 3))
    assert selection("p9") == (0, 0, 0)  # no paper of the query


# ---- an arm

QUERIES = [query("a"), query("b", ("p2",), tier="2", kind="multi"), query("c", ("p2",))]


def test_an_arm_averages_samples_then_queries_and_leaves_out_what_is_unscored():
    samples = [
        sample("a", 1.0, 0), sample("a", 0.2, 1),  # 0.6
        sample("b", 0.4, 0), sample("b", None, 1),  # 0.4
        sample("c", None, 0, cause=Cause.JUDGE), sample("c", None, 1, cause=Cause.JUDGE),
    ]  # fmt: skip
    arm = Summary(QUERIES, resamples=200).arm(samples)
    assert arm["judge_mean"] == approx((0.6 + 0.4) / 2)
    assert (arm["n"], arm["samples"], arm["unscored"], arm["k"]) == (2, 6, 3, 2)
    assert arm["pass_at_1"] == approx((1 / 2 + 0 / 1) / 2)
    assert arm["pass_at_k"] == approx(1.0)  # only "a" has two scored samples
    assert arm["f1_mean"] == approx(0.5)
    assert [arm[f"macro_{name}_mean"] for name in ("precision", "recall", "f1")] == approx([0.2, 0.4, 0.3])
    assert arm["macro_f1_ci95"] == approx([0.3, 0.3])
    assert arm["format_success"] == approx((1 + 1 + 0) / 3)
    assert arm["by_tier"]["2"] == {
        "n": 1,
        "judge_mean": approx(0.4),
        "judge_ci95": [approx(0.4)] * 2,
        "f1_mean": approx(0.5),
        "tokens_mean": 100,
    }
    assert arm["by_kind"]["single"]["n"] == 1
    assert arm["pass_at"] == {"1": approx(0.25), "2": approx(1.0)}
    assert arm["failures"] == {"judge": {"count": 2, "example": "c.0", "query_id": "c", "detail": ""}}
    assert (arm["paper_precision_mean"], arm["cost_mean"], arm["cost_total"], arm["tokens_p95"]) == (1, None, None, 100)
    assert arm["turn_errors"] == {"code": 6}
    assert arm["judge_ci95"][0] <= 0.5 <= arm["judge_ci95"][1]


def test_an_arm_without_any_verdict_has_no_mean_and_is_not_compared():
    summary = Summary(QUERIES, resamples=200)
    silent = [sample(q.id, None) for q in QUERIES]
    arm = summary.arm(silent)
    assert (arm["judge_mean"], arm["judge_ci95"], arm["pass_at_k"], arm["n"]) == (None, None, None, 0)
    rows = summary.compare({"grpo": silent, "base": silent}, [Pair("grpo", "base", "training")])
    assert [row["metric"] for row in rows] == ["f1"]


def test_comparisons_are_paired_and_adjusted_within_a_metric():
    summary = Summary(QUERIES, resamples=200)
    arms = {
        "grpo": [sample("a", 0.9), sample("b", 0.8), sample("c", 0.7)],
        "sft": [sample("a", 0.5), sample("b", 0.5), sample("c", None)],
        "base": [sample("a", 0.1), sample("b", 0.1), sample("c", 0.1)],
    }
    rows = summary.compare(arms, comparisons_of(plan_arms(["grpo", "sft", "base"], MODELS)))
    judged = [row for row in rows if row["metric"] == "judge"]
    assert [(row["a"], row["b"]) for row in judged] == [("grpo", "sft"), ("grpo", "base"), ("sft", "base")]
    assert judged[0]["difference"] == approx((0.4 + 0.3) / 2)  # "c" has no pair
    assert (judged[0]["n"], judged[1]["n"]) == (2, 3)
    # two clusters, p1 and p2, always in favour: p = 2/4, times three pairs
    assert judged[0]["p_value"] == approx(0.5)
    assert judged[0]["p_holm"] == 1.0


def test_clusters_are_the_papers_that_hold_the_evidence():
    assert clusters_of([query("x", ("p2", "p1")), query("y"), Query("z", "?", group_id="g")]) == ["p1+p2", "p1", "g"]


def test_p_values_are_adjusted_within_their_family():
    summary = Summary(QUERIES, resamples=200)
    rewards = {"grpo": 0.9, "sft": 0.5, "expert": 0.4}
    arms = {name: [sample(q.id, reward) for q in QUERIES] for name, reward in rewards.items()}
    pairs = [Pair("grpo", "sft", "training"), Pair("grpo", "expert", "baselines"), Pair("sft", "expert", "baselines")]
    adjusted = {(r["a"], r["b"]): r["p_holm"] for r in summary.compare(arms, pairs) if r["metric"] == "judge"}
    # two sets of papers that differ one way: p = 2/4 each; a family of one stays, one of two is doubled
    assert adjusted == {("grpo", "sft"): 0.5, ("grpo", "expert"): 1.0, ("sft", "expert"): 1.0}
    assert summary.least_p(pairs) == {"training": 0.5, "baselines": 1.0}
    many = Summary([query(f"q{i}", (f"p{i}",)) for i in range(8)])
    assert many.least_p(pairs) == {"training": 2 / 256, "baselines": 4 / 256}


def pairs_of(*arms: Any, temperatures: tuple[float, ...] = ()) -> list[tuple[str, str, str]]:
    return [tuple(pair) for pair in comparisons_of(plan_arms(arms, MODELS, temperatures))]


def test_pairs_are_fixed_by_name():
    assert pairs_of("base", "expert") == [("base", "expert", "baselines")]
    assert pairs_of("base", "sft", "bm25_topk") == [("sft", "base", "training"), ("sft", "bm25_topk", "baselines")]
    assert pairs_of("expert", "bm25_topk") == []
    assert pairs_of("sft", "grpo", "codeact", temperatures=(0.0, 0.5)) == [
        ("grpo", "sft", "training"),
        ("grpo_t0", "sft_t0", "sharpening"),
        ("grpo_t0.5", "sft_t0.5", "sharpening"),
        ("grpo", "codeact", "baselines"),
    ]


def test_k_of_pass_at_k_and_quantiles():
    assert [counts_up_to(k) for k in (1, 2, 6, 8)] == [[1], [1, 2], [1, 2, 4, 6], [1, 2, 4, 8]]
    assert quantile([5, 1, 4, 2, 3], 0.95) == 5
    assert quantile(list(range(1, 101)), 0.95) == 95
    assert quantile([], 0.5) is None


def test_failures_come_most_frequent_first():
    samples = [sample("a", 0.1, cause=Cause.EMPTY), *(sample("b", 0.1, n, cause=Cause.OUT_OF_TURNS) for n in range(2))]
    assert list(failures_of(samples)) == ["out_of_turns", "empty_answer"]


def test_large_clean_evaluations_need_few_notes():
    queries = [query(f"q{i}", (f"p{i % 40}",)) for i in range(128)]
    arms = {"grpo": {"samples": 512, "unscored": 20}}
    assert notes_on(queries, arms, judge="rubric:model", samples_per_query=4) == [
        "A sample passes with a judge reward of 0.5 or more."
    ]
    few = notes_on(queries, arms, judge="x", samples_per_query=4, least_p={"training": 0.04, "baselines": 0.055})
    assert [note.split(":")[0] for note in few if "Holm" in note] == ["Comparisons of baselines"]
    scripted = {"teacher": {"samples": 128, "unscored": 0, "actor": "expert"}}
    told = notes_on(queries, scripted, judge="x", samples_per_query=4)
    assert "The arm teacher is a scripted program, not a model." in told
    arms["grpo"]["unscored"] = 30
    assert any("30 of 512 samples" in note for note in notes_on(queries, arms, judge="x", samples_per_query=4))


def test_what_is_left_of_a_gain_at_other_temperatures_is_told():
    def row(a: str, b: str, family: str, difference: float, metric: str = "judge") -> dict[str, Any]:
        return {"a": a, "b": b, "family": family, "difference": difference, "metric": metric}

    rows = [
        row("grpo", "sft", "training", 0.126),
        row("grpo", "base", "training", 0.5),
        row("grpo_t0", "sft_t0", "sharpening", 0.012),
        row("grpo_t0.5", "sft_t0.5", "sharpening", 0.017),
        row("grpo_t0", "sft_t0", "sharpening", 0.9, "f1"),
    ]
    (note,) = sharpening_notes(rows)
    assert note.startswith(
        "grpo over sft by judge: +0.126 at the evaluation's temperature, +0.012 at 0, +0.017 at 0.5 ("
    )
    assert sharpening_notes(rows[:2]) == []


# ---- the table


def test_the_table_by_hand():
    evaluation = {
        "judge": "lexical",
        "n": 4,
        "arms": {
            "base": {"judge_mean": 0.1, "judge_ci95": [0.1, 0.1], "f1_mean": 0.0, "macro_f1_mean": 0.05,
                     "format_success": 0.25, "pass_at_k": 0.0, "seconds_mean": 1.25, "tokens_mean": 1234.4, "n": 4,
                     "model": "smollm2-135m"},
            "grpo": {"judge_mean": None, "judge_ci95": None, "f1_mean": None, "format_success": None, "pass_at_k": None,
                     "seconds_mean": None, "tokens_mean": None, "n": 0},
        },
        "comparisons": [
            {"a": "grpo", "b": "base", "metric": "judge", "difference": 0.5, "ci95": [0.4, 0.6], "p_value": 0.0001,
             "p_holm": 0.0002, "wins": 3, "losses": 1, "ties": 0, "n": 4},
        ],
        "notes": ["Mind the gap."],
    }  # fmt: skip
    assert render_table(evaluation) == (
        "Judge: lexical, test queries: 4\n"
        "\n"
        "arm   judge   95 % interval     F1  by paper  format  pass@k  tokens  seconds  n  model\n"
        f"{'-' * 94}\n"
        "base  0.100  0.100 .. 0.100  0.000     0.050    25 %   0.000   1,234      1.2  4  smollm2-135m\n"
        "grpo      -               -      -         -       -       -       -        -  0  -\n"
        "\n"
        "Paired differences by judge (95 % interval, p after Holm):\n"
        "  grpo - base: +0.500 (+0.400 .. +0.600), p < 0.001, better on 3, worse on 1 of 4\n"
        "\n"
        "Note: Mind the gap."
    )


def test_the_table_names_k_where_it_is_more_than_one():
    arm = {"judge_mean": 0.5, "judge_ci95": [0.4, 0.6], "pass_at_k": 0.75, "k": 4, "n": 9}
    assert "0.750 (k=4)" in render_table({"judge": "x", "n": 9, "arms": {"grpo": arm}, "comparisons": []})
