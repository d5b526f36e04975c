"""The order in which queries come, with and without a share of kinds."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm_core.grpo.draws import draw
from rlm_core.records import Query

PLAIN = [Query(f"q{i}", "?") for i in range(5)]
MIXED = [Query(f"s{i}", "?") for i in range(10)] + [Query(f"m{i}", "?", kind="multi") for i in range(3)]


def test_every_query_is_drawn_once_an_epoch_in_a_seeded_order():
    drawn = [q.id for q in draw(PLAIN, 10, 0, seed=3)]
    assert sorted(drawn[:5]) == sorted(drawn[5:]) == [q.id for q in PLAIN]
    assert drawn[:5] != drawn[5:]
    assert drawn != [q.id for q in draw(PLAIN, 10, 0, seed=4)]


def test_each_step_sees_both_kinds():
    # a quarter of 8: positions 3 and 7 of every 8, since floor(4/4) = 1 and floor(8/4) = 2
    for step in range(6):
        kinds = [q.kind for q in draw(MIXED, 8, 8 * step, seed=0, multi_share=0.25)]
        assert [i for i, kind in enumerate(kinds) if kind == "multi"] == [3, 7]


def test_kinds_go_through_epochs_of_their_own():
    drawn = [q.id for q in draw(MIXED, 40, 0, seed=0, multi_share=0.25)]
    counts = Counter(drawn)
    # 10 multi draws over 3 queries: 3 epochs and one more; 30 single draws over 10 queries: 3 epochs
    assert sorted(counts[q.id] for q in MIXED if q.kind == "multi") == [3, 3, 4]
    assert {counts[q.id] for q in MIXED if q.kind == "single"} == {3}


@given(st.integers(0, 200), st.integers(1, 30), st.integers(0, 30), st.sampled_from([None, 0.0, 0.1, 0.3, 0.5, 1.0]))
def test_a_sequence_may_be_taken_up_at_any_position(position: int, count: int, cut: int, share: float | None):
    whole = draw(MIXED, count, position, seed=7, multi_share=share)
    cut = min(cut, count)
    parts = draw(MIXED, cut, position, seed=7, multi_share=share)
    parts += draw(MIXED, count - cut, position + cut, seed=7, multi_share=share)
    assert whole == parts
    if share is not None:
        assert abs(sum(q.kind == "multi" for q in whole) - share * count) <= 1


@pytest.mark.parametrize("share,kind", [(0.25, "multi"), (1.0, "multi")])
def test_a_kind_that_is_not_there_is_told(share: float, kind: str):
    with pytest.raises(
        ValueError, match=rf"grpo\.multi_share is {share:g}, but none of the 5 training queries is a {kind}"
    ):
        draw(PLAIN, 2, 0, seed=0, multi_share=share)
    assert len(draw(PLAIN, 2, 0, seed=0, multi_share=0)) == 2
