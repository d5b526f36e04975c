"""Evidence F1 against numbers worked out by hand, and what must hold for any texts."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlm_core.rewards import PRF, evidence_f1
from rlm_core.rewards.overlap import matched_intervals

# No seven letters in a row in common.
A = "the rivers of the north carry silt down to warm lagoons"
B = "our panel judged every essay twice without knowing its writer"
C = "batteries lose charge fastest while stored beneath freezing"


def letters(text: str) -> int:
    return sum(c.isalnum() for c in text)


def test_the_evidence_itself_is_perfect():
    assert evidence_f1([A, B], [A, B]) == PRF(1.0, 1.0, 1.0)
    assert evidence_f1(A, A) == PRF(1.0, 1.0, 1.0)


def test_padding_lowers_precision_only():
    result = evidence_f1([A, C], [A])
    # letters of A over letters of A and C
    share = letters(A) / (letters(A) + letters(C))
    assert result.precision == pytest.approx(share)
    assert result.recall == 1.0
    assert result.f1 == pytest.approx(2 * share / (1 + share))


def test_half_the_evidence_lowers_recall_only():
    result = evidence_f1([A], [A, B])
    assert result.precision == 1.0
    assert result.recall == pytest.approx(letters(A) / (letters(A) + letters(B)))


def test_part_of_one_passage():
    words = A.split()
    part = " ".join(words[:6])  # "the rivers of the north carry": 24 letters of 45
    result = evidence_f1([part], [A])
    assert (letters(part), letters(A)) == (24, 45)
    assert result == PRF(1.0, pytest.approx(24 / 45), pytest.approx(2 * 24 / (24 + 45)))


def test_repetition_counts_once():
    assert evidence_f1([A] * 5, [A]) == PRF(1.0, 1.0, 1.0)
    assert evidence_f1([f"{A} {A} {A}"], [A]) == PRF(1.0, 1.0, 1.0)
    assert evidence_f1([A, A[:40]], [A]) == PRF(1.0, 1.0, 1.0)
    # Repeating a hit does not water down the padding beside it.
    assert evidence_f1([A, A, A, C], [A]) == evidence_f1([A, C], [A])
    assert evidence_f1([A], [A, A]) == PRF(1.0, 1.0, 1.0)


def test_nothing_asked_or_nothing_given():
    assert evidence_f1([], [A]) == PRF(0.0, 0.0, 0.0)
    assert evidence_f1(["", " — "], [A]) == PRF(0.0, 0.0, 0.0)
    assert evidence_f1([A], []) == PRF(0.0, 0.0, 0.0)
    assert evidence_f1([], []) == PRF(1.0, 1.0, 1.0)


def test_another_subject_is_worth_nothing():
    assert evidence_f1([C], [A, B]) == PRF(0.0, 0.0, 0.0)


def test_single_words_of_the_evidence_are_not_evidence():
    gold = f"{A}. {B}. {C}."
    assert evidence_f1(sorted(set(gold.split())), [gold]) == PRF(0.0, 0.0, 0.0)
    assert evidence_f1(["the"], [gold]) == PRF(0.0, 0.0, 0.0)


def test_short_answers_to_short_evidence():
    assert evidence_f1(["42 mg"], ["42 mg"]) == PRF(1.0, 1.0, 1.0)
    assert evidence_f1(["a dose of 42 mg"], ["42 mg"]).recall == 1.0
    # "the cat sat" is 9 letters of 17
    assert evidence_f1(["the cat sat"], ["the cat sat on the mat"]) == PRF(
        1.0, pytest.approx(9 / 17), pytest.approx(18 / 26)
    )


def test_two_columns_in_one_snippet_are_precision_lost():
    gold = "the rivers of the north carry silt down to warm lagoons and feed the reeds there"
    foreign = "our panel judged every essay twice without knowing its writer or the school"
    snippet = (
        "the rivers of the north carry our panel judged every essay\n"
        "silt down to warm lagoons twice without knowing its writer\n"
        "and feed the reeds there or the school"
    )
    result = evidence_f1([snippet], [gold])
    assert result.recall == pytest.approx(1.0, abs=0.02)
    assert result.precision == pytest.approx(letters(gold) / (letters(gold) + letters(foreign)), abs=0.03)


@pytest.mark.parametrize(
    "noisy",
    [
        A.replace(" ", ""),
        A.replace("lagoons", "la-\ngoons").replace("rivers", "riv-\ners"),
        A.upper(),
        f"({A}),",
        A.replace("north", "n0rth").replace("silt", "slit"),
    ],
    ids=["glued", "hyphens", "case", "marks", "misread"],
)
def test_noise_counts_for_nothing(noisy):
    assert evidence_f1([noisy], [A]).f1 == pytest.approx(1.0, abs=0.02)


def test_ligatures_are_their_letters():
    assert evidence_f1(["the eﬃcient ﬁlter of the oﬃce"], ["the efficient filter of the office"]).f1 == 1.0


texts = st.lists(st.text("abcdefg hij.-\n", max_size=120), max_size=5)


@settings(max_examples=150, deadline=None)
@given(texts, texts)
def test_shares_are_shares_and_sides_change_places(predicted, gold):
    there, back = evidence_f1(predicted, gold), evidence_f1(gold, predicted)
    assert 0 <= there.precision <= 1 and 0 <= there.recall <= 1 and 0 <= there.f1 <= 1
    assert there.precision == pytest.approx(back.recall)
    assert there.recall == pytest.approx(back.precision)
    assert there.f1 == pytest.approx(back.f1)


@settings(max_examples=60, deadline=None)
@given(texts, texts, st.randoms())
def test_order_does_not_matter(predicted, gold, rng):
    shuffled = rng.sample(predicted, len(predicted)), rng.sample(gold, len(gold))
    assert evidence_f1(*shuffled) == evidence_f1(predicted, gold)


@settings(max_examples=60, deadline=None)
@given(texts.filter(lambda t: any(c.isalnum() for x in t for c in x)))
def test_anything_equals_itself(passages):
    assert evidence_f1(passages, passages) == PRF(1.0, 1.0, 1.0)


def test_it_is_fast_enough_for_every_rollout():
    rng = random.Random(0)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=6)) for _ in range(400)]
    gold = [" ".join(rng.choices(words, k=90)) for _ in range(3)]
    predicted = [gold[0][:400], gold[1], " ".join(rng.choices(words, k=90))]
    start = time.process_time()
    for _ in range(20):
        evidence_f1(predicted, gold)
    assert (time.process_time() - start) / 20 < 0.01


@pytest.mark.parametrize(
    "answer", ["x" * 300_000, "the cat " * 40_000, " ".join(f"row{i} of ten" for i in range(3000))]
)
def test_text_that_repeats_itself_costs_little_and_equals_itself(answer):
    start = time.perf_counter()
    assert evidence_f1([answer], [answer]) == PRF(1.0, 1.0, 1.0)
    for gold in ([answer[:400]], [A, answer[5:200]]):
        result = evidence_f1([answer], gold)
        assert 0 <= result.precision <= 1 and 0 <= result.recall <= 1
    assert time.perf_counter() - start < 20


def test_gaps_are_bridged_inside_a_match_only():
    # The two passages stand 3 letters apart in the answer, but far apart in the evidence: those letters are padding.
    result = evidence_f1([f"{A} zzz {B}"], [A, B])
    assert result.precision == pytest.approx((letters(A) + letters(B)) / (letters(A) + letters(B) + 3))
    assert result.recall == 1.0


def test_intervals_are_the_letters_that_count() -> None:
    gold = ["The drought of nineteen twelve emp-\ntied the northern reservoirs."]
    answer = [f"It says: {gold[0].replace('-' + chr(10), '')} And more.", "Barley needs little water.", "..."]
    in_answer, in_gold = matched_intervals(answer, gold)
    assert [[text[a:b] for a, b in found] for text, found in zip(answer, in_answer, strict=True)] == [
        ["The drought of nineteen twelve emptied the northern reservoirs"],
        [],
        [],
    ]
    assert in_gold == [[(0, len(gold[0]) - 1)]]
    assert matched_intervals([], gold) == ([], [[]])
