"""Evidence F1 paper by paper, on texts whose letters are counted by hand."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from rlm_core.evaluation.by_paper import NOWHERE, evidence_by_paper, macro, paper_of
from rlm_core.records import Evidence, Query
from rlm_core.rewards import PRF, evidence_f1
from rlm_core.synthesis.streams import Stream


def letters(name: str, size: int) -> str:
    """`size` letters that no other name has, in words of five."""
    rng = Random(name)
    drawn = "".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(size))
    return " ".join(drawn[i : i + 5] for i in range(0, size, 5))


def mistyped(text: str, every: int) -> str:
    """One digit in place of every `every`-th letter."""
    count = 0
    out = ""
    for char in text:
        count += char.isalnum()
        out += "7" if char.isalnum() and count % every == 0 else char
    return out


SHORT, LONG = letters("gold of a", 100), letters("gold of b", 300)
REST = {name: letters(f"rest of {name}", 200) for name in "abc"}
TEXTS = {"a": f"{SHORT} {REST['a']}", "b": f"{REST['b']}\n{LONG}", "c": REST["c"]}
CONTEXT = {name: {"title": name, "abstract": "", "text": text} for name, text in TEXTS.items()}


def query(*evidence: tuple[str, str], context: object = CONTEXT) -> Query:
    return Query("q", "What?", evidence=tuple(Evidence(*e) for e in evidence), context=context)  # type: ignore[arg-type]


BOTH = query(("a", SHORT), ("b", LONG))


def test_every_paper_has_the_same_say() -> None:
    answer = [f"{SHORT} {REST['a'][:119]}", REST["c"][:59]]  # 100 + 100 letters of a, 50 of c, none of b
    scores = evidence_by_paper(BOTH, answer)
    assert scores == {"a": PRF(0.5, 1.0, approx(2 / 3)), "b": PRF(0, 0, 0), "c": PRF(0, 0, 0)}
    assert macro(scores) == PRF(approx(0.5 / 3), approx(1 / 3), approx(2 / 9))
    pooled = evidence_f1(answer, BOTH.gold)
    assert (pooled.precision, pooled.recall) == (approx(100 / 250), approx(100 / 400))


def test_a_short_paper_that_is_left_out_costs_as_much_as_a_long_one() -> None:
    assert macro(evidence_by_paper(BOTH, [LONG])) == macro(evidence_by_paper(BOTH, [SHORT])) == PRF(0.5, 0.5, 0.5)
    assert evidence_f1([LONG], BOTH.gold).f1 == approx(6 / 7)  # 300 of 400 letters
    assert evidence_f1([SHORT], BOTH.gold).f1 == approx(2 / 5)


def test_text_of_no_paper_is_one_more_paper() -> None:
    invented = letters("invented", 80)
    scores = evidence_by_paper(query(("a", SHORT)), [SHORT, invented, "n0"])
    assert scores == {"a": PRF(1, 1, 1), NOWHERE: PRF(0, 0, 0)}
    assert macro(scores) == PRF(0.5, 0.5, 0.5)


def test_a_papers_id_and_bare_marks_are_no_text() -> None:
    assert evidence_by_paper(query(("a", SHORT)), ["b", SHORT, " -- "]) == {"a": PRF(1, 1, 1)}


def test_gold_is_matched_within_its_paper_alone() -> None:
    """The same sentence stands in a and b, and only b's counts as evidence: the answer is b's, which is taken first."""
    context = {**CONTEXT, "a": {**CONTEXT["a"], "text": f"{SHORT} {LONG}"}}
    scores = evidence_by_paper(query(("b", LONG), context=context), [LONG])
    assert scores == {"b": PRF(1, 1, 1)}
    # a's gold copied from where b prints it would be b's, had a itself not printed it
    lent = {**CONTEXT, "b": {**CONTEXT["b"], "text": f"{LONG} {SHORT}"}, "a": {**CONTEXT["a"], "text": REST["a"]}}
    assert evidence_by_paper(query(("a", SHORT), context=lent), [SHORT]) == {"a": PRF(0, 0, 0), "b": PRF(0, 0, 0)}


@pytest.mark.parametrize(
    ("passage", "paper"),
    [
        (f"It says: {LONG}", "b"),
        (mistyped(LONG, 20), "b"),  # runs of 19 letters, 285 of 300
        (mistyped(LONG, 16), NOWHERE),  # runs of 15 letters: nothing to tell it by
        (LONG[:59] + letters("more", 40), "b"),  # 50 of 90
        (LONG[:59] + letters("more", 60), NOWHERE),  # 50 of 110
        (f"{SHORT[:59]} {LONG[:119]}", "b"),  # 50 of a, 100 of b
        (LONG[:8].upper(), "b"),
        ("", "a"),  # no letters stand everywhere
    ],
)
def test_a_passage_that_was_not_copied_whole_is_told_by_its_runs(passage: str, paper: str) -> None:
    assert paper_of(Stream.of(passage), TEXTS) == paper


def test_a_single_text_is_one_paper() -> None:
    one = query(("a", SHORT), ("b", LONG), context="\n".join(TEXTS.values()))
    assert evidence_by_paper(one, [LONG]) == {NOWHERE: evidence_f1([LONG], one.gold)}
    assert macro({}) == PRF(1, 1, 1)


@given(st.permutations([SHORT, LONG[:149], LONG[150:], REST["c"], "invented by nobody at all"]), st.integers(0, 5))
def test_order_means_nothing_and_one_paper_is_the_pooled_measure(passages: list[str], size: int) -> None:
    scores = evidence_by_paper(BOTH, passages[:size])
    assert scores == evidence_by_paper(BOTH, passages[:size][::-1])
    within = [p for p in passages[:size] if p in LONG]
    assert macro(evidence_by_paper(query(("b", LONG)), within)) == evidence_f1(within, [LONG])
