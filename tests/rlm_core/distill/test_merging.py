"""Merged rows teach the same tokens after the same inputs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rlm_core.distill.merging import IGNORED, training_rows

Turn = tuple[list[int], list[int]]
__ = IGNORED


def test_turns_that_extend_each_other_become_one_row():
    turns: list[Turn] = [([1, 2], [3]), ([1, 2, 3, 4], [5, 6]), ([1, 9], [3])]
    assert training_rows(turns, merge=True) == [
        {"input_ids": [1, 2, 3, 4, 5, 6], "labels": [__, __, 3, __, 5, 6]},
        {"input_ids": [1, 9, 3], "labels": [__, __, 3]},
    ]
    assert training_rows(turns, merge=False)[0] == {"input_ids": [1, 2, 3], "labels": [__, __, 3]}


turns_lists = st.lists(
    st.tuples(st.lists(st.integers(1, 3), min_size=1, max_size=4), st.lists(st.integers(1, 3), min_size=1, max_size=3)),
    max_size=8,
)


@given(turns_lists)
def test_merging_neither_adds_nor_loses_a_learned_token(turns: list[Turn]):
    def learned(merge: bool) -> list[tuple[list[int], int]]:
        """Each learned token with all that was read before it."""
        return sorted(
            (row["input_ids"][:place], label)
            for row in training_rows(turns, merge=merge)
            for place, label in enumerate(row["labels"])
            if label != IGNORED
        )

    assert learned(merge=True) == learned(merge=False)
