"""Crossed intervals against cases whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rlm_core.ablation.statistics import crossed_interval, paired_interval


def test_equal_scores_have_no_width():
    found = crossed_interval(np.full((3, 5), 0.4))
    assert (found.mean, found.low, found.high) == pytest.approx((0.4, 0.4, 0.4))


def test_one_seed_resamples_questions_alone():
    # Two questions of 0 and 1: a resample has mean 0, 1/2 or 1 with chances 1/4, 1/2, 1/4.
    found = crossed_interval(np.array([[0.0, 1.0]]))
    assert (found.mean, found.low, found.high) == (0.5, 0.0, 1.0)


def test_both_sources_of_chance_count():
    """A spread over seeds alone, and over questions alone, each widens the interval."""
    seeds_only = crossed_interval(np.repeat([[0.0], [0.5], [1.0]], 50, axis=1))
    assert seeds_only.high - seeds_only.low == pytest.approx(1.0, abs=0.35)
    rng = np.random.default_rng(0)
    questions = rng.random(200)
    both = crossed_interval(np.repeat(questions[None], 4, axis=0))
    # sd of the mean of 200 uniform numbers: sqrt(1/12/200) = 0.0204; four equal seeds add nothing to learn from
    assert both.high - both.low == pytest.approx(2 * 1.96 * questions.std() / np.sqrt(200), rel=0.1)


def test_a_score_that_is_missing_is_left_out():
    table = np.array([[0.2, np.nan], [0.4, 0.6]])
    assert crossed_interval(table).mean == pytest.approx((0.2 + 0.4 + 0.6) / 3)
    with pytest.raises(ValueError, match="at least one score"):
        crossed_interval(np.array([[np.nan]]))


def test_pairing_takes_out_what_questions_share():
    rng = np.random.default_rng(1)
    questions = rng.random((3, 60))
    difference = paired_interval(questions + 0.1, questions)
    assert difference.mean == pytest.approx(0.1) and difference.low == pytest.approx(0.1)
    with pytest.raises(ValueError, match="cannot be paired"):
        paired_interval(questions, questions[:, :5])


@given(arrays(float, st.tuples(st.integers(1, 4), st.integers(1, 6)), elements=st.floats(0, 1)))
def test_intervals_lie_in_the_range_and_turn_with_the_sign(table: np.ndarray):
    found, turned = crossed_interval(table, samples=500), crossed_interval(-table, samples=500)
    assert (turned.low, turned.high) == pytest.approx((-found.high, -found.low))
    assert table.min() - 1e-9 <= found.low <= found.high <= table.max() + 1e-9
