"""Advantages of a group, with the sums beside them."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm_core.grpo import group_advantages

rewards = st.lists(st.one_of(st.none(), st.floats(0, 1, width=32)), min_size=1, max_size=12)


def test_an_unjudged_tree_is_left_out_of_the_mean():
    # mean of 1 and 0 is .5
    assert group_advantages([1.0, None, 0.0]) == [0.5, None, -0.5]


def test_scaled_by_the_sample_deviation():
    # mean 2, deviations -1 0 1, sample variance (1 + 0 + 1) / 2 = 1
    assert group_advantages([1.0, 2.0, 3.0], scale_by_std=True) == pytest.approx([-1 / 1.0001, 0.0, 1 / 1.0001])


@pytest.mark.parametrize("group", [[0.3, 0.3, 0.3], [0.3, 0.3 + 5e-7], [0.1 + 0.2, 0.3], [0.9, None], [None, None], []])
def test_no_signal_gives_none_for_all(group: list[float | None]):
    assert group_advantages(group, scale_by_std=True) == [None] * len(group)


def test_a_small_but_real_difference_counts():
    assert group_advantages([0.3, 0.3 + 1e-4]) == pytest.approx([-5e-5, 5e-5])


def test_nan_is_refused():
    with pytest.raises(ValueError, match="reward 1 of the group is nan"):
        group_advantages([0.0, math.nan])


@given(rewards)
def test_advantages_of_a_group_sum_to_zero_and_keep_the_order(group: list[float | None]):
    advantages = group_advantages(group)
    assert len(advantages) == len(group)
    pairs = [(r, a) for r, a in zip(group, advantages, strict=True) if a is not None]
    assert math.isclose(sum(a for _, a in pairs), 0.0, abs_tol=1e-9)
    assert [a for _, a in sorted(pairs)] == sorted(a for _, a in pairs)


@given(rewards)
def test_unjudged_trees_change_nothing_for_the_others(group: list[float | None]):
    judged = [r for r in group if r is not None]
    kept = [a for r, a in zip(group, group_advantages(group, scale_by_std=True), strict=True) if r is not None]
    assert kept == group_advantages(judged, scale_by_std=True)


@given(st.lists(st.floats(0, 1, width=32), min_size=2, max_size=12))
def test_scaled_advantages_have_unit_deviation(group: list[float]):
    advantages = [a for a in group_advantages(group, scale_by_std=True) if a is not None]
    if advantages:
        std = statistics.stdev(group)
        assert statistics.stdev(advantages) == pytest.approx(std / (std + 1e-4), rel=1e-6)
