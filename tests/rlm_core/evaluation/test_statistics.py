"""Statistics against hand-computed numbers, and the intervals' coverage by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from rlm_core.evaluation import bootstrap_ci, holm, paired_difference, pass_at_k
from rlm_core.evaluation.statistics import expanded_confidence, sign_flip_p


def coverage(draw, truth: float, repeats: int, clusters=None, use_clusters: bool = True) -> float:
    """Share of simulated data sets whose interval holds the true mean."""
    hits = 0
    for repeat in range(repeats):
        values = draw(np.random.default_rng(repeat)).tolist()
        low, high = bootstrap_ci(values, samples=400, seed=repeat, clusters=clusters if use_clusters else None)
        hits += low <= truth <= high
    return hits / repeats


@pytest.mark.parametrize("n", [10, 20, 60])
def test_intervals_cover_a_skewed_mean_about_95_times_in_100(n):
    # 250 repeats of a 95 % interval: standard error 1.4 points
    assert 0.91 <= coverage(lambda rng: rng.beta(0.6, 0.4, n), truth=0.6, repeats=250) <= 0.995


def test_only_clustered_intervals_cover_where_items_share_papers():
    clusters = [c for c in range(10) for _ in range(6)]

    def draw(rng: np.random.Generator) -> np.ndarray:
        return np.repeat(rng.normal(0, 1, 10), 6) + rng.normal(0, 1, 60)

    assert coverage(draw, 0.0, 200, clusters) >= 0.91
    assert coverage(draw, 0.0, 200, clusters, use_clusters=False) <= 0.85  # items alone: far too sure


def test_the_interval_matches_the_normal_one_on_many_values():
    values = np.random.default_rng(0).normal(5, 2, 4000)
    low, high = bootstrap_ci(values.tolist(), samples=4000)
    half = 1.96 * values.std(ddof=1) / math.sqrt(4000)  # 0.062
    assert (low, high) == approx((values.mean() - half, values.mean() + half), abs=0.006)


def test_equal_seeds_give_equal_intervals_and_a_wider_confidence_a_wider_one():
    values = [0.0, 0.2, 0.9, 1.0, 0.4, 0.6, 0.1]
    assert bootstrap_ci(values, seed=3) == bootstrap_ci(values, seed=3)
    (low, high), (lower, higher) = bootstrap_ci(values, confidence=0.8), bootstrap_ci(values, confidence=0.99)
    assert lower < low < sum(values) / 7 < high < higher


def test_a_single_value_and_constants_have_no_spread():
    assert bootstrap_ci([0.7]) == (0.7, 0.7)
    assert bootstrap_ci([0.25] * 9) == (0.25, 0.25)
    assert bootstrap_ci([0.5, 0.5], clusters=["a", "a"]) == (0.5, 0.5)
    # both clusters have mean 1/2: no resample of clusters changes it
    assert bootstrap_ci([0.0, 1.0, 0.0, 1.0], clusters=["a", "a", "b", "b"]) == (0.5, 0.5)


def test_unscored_values_are_left_out_and_never_count_as_zero():
    values = [0.5, None, 0.7, 0.9, None]
    assert bootstrap_ci(values) == bootstrap_ci([0.5, 0.7, 0.9])
    assert bootstrap_ci(values, clusters="abbca") == bootstrap_ci([0.5, 0.7, 0.9], clusters="abc")


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        ([], {}, "no scored value among 0"),
        ([None, None], {}, "no scored value among 2"),
        ([0.1, math.nan], {}, "value 1 is nan"),
        ([math.inf, 0.1], {}, "value 0 is inf"),
        ([0.1, 0.2], {"clusters": ["a"]}, "2 values but 1 clusters"),
        ([0.1, 0.2], {"clusters": ["a", "a"]}, "one cluster"),
        ([0.1, 0.2], {"confidence": 1.0}, "confidence"),
        ([0.1, 0.2], {"samples": 0}, "samples"),
    ],
)
def test_bad_input_is_named(values, options, message):
    with pytest.raises(ValueError, match=message):
        bootstrap_ci(values, **options)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=12), st.integers(0, 5))
def test_intervals_of_bounded_scores_stay_within_their_range(values, seed):
    low, high = bootstrap_ci(values, samples=100, seed=seed)
    assert min(values) - 1e-9 <= low <= high <= max(values) + 1e-9


def test_the_level_is_widened_for_few_units_as_published():
    # the one-sided tail of 2.5 % becomes 0.10 % at 5 units, 0.86 % at 10, 2.31 % at 100
    assert [round((1 - expanded_confidence(0.95, n)) / 2, 4) for n in (5, 10, 100)] == [0.001, 0.0086, 0.0231]


def test_a_paired_difference_by_hand():
    # differences 0.2, 0.4, 0.0, -0.2: mean 0.1, sd sqrt((0.01 + 0.09 + 0.01 + 0.09) / 3) = 0.2582
    result = paired_difference([0.7, 0.9, 0.5, 0.3, None], [0.5, 0.5, 0.5, 0.5, 0.5])
    assert result.difference == approx(0.1)
    assert result.effect_size == approx(0.1 / 0.2582, abs=1e-4)
    assert (result.wins, result.losses, result.ties, result.n) == (2, 1, 1, 4)
    # signs of 0.2, 0.4, -0.2: |sum| >= 0.4 in ++- (0.4... twice each way) -> patterns 0.8, 0.4, 0.4, 0 and mirrored: 6 of 8
    assert result.p_value == approx(6 / 8)
    assert result.ci[0] < 0.1 < result.ci[1]


def test_equal_arms_differ_by_exactly_nothing():
    result = paired_difference([0.3, 0.6], [0.3, 0.6])
    assert (result.difference, result.ci, result.p_value, result.effect_size) == (0.0, (0.0, 0.0), 1.0, None)


def test_arms_of_different_items_cannot_be_paired():
    with pytest.raises(ValueError, match="2 against 1"):
        paired_difference([0.1, 0.2], [0.1])


def test_sign_flips_are_exact_for_few_clusters_and_close_for_many():
    assert sign_flip_p(np.array([1.0, 1.0, 1.0])) == approx(2 / 8)  # all plus, all minus
    assert sign_flip_p(np.array([1.0, 1.0, 1.0, 0.0, 0.0])) == approx(2 / 8)
    ones = np.ones(14)  # Monte Carlo: P(|S| >= 14) = 2 / 16384
    assert sign_flip_p(ones, samples=20000) == approx(2 / 16384, abs=3e-4)


def test_sign_flips_reject_a_true_null_about_5_times_in_100():
    rejected = sum(sign_flip_p(np.random.default_rng(i).normal(0, 1, 8)) <= 0.05 for i in range(1000))
    assert 30 <= rejected <= 70


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == approx([0.03, 0.06, 0.06])
    assert holm([0.6, 0.5]) == approx([1.0, 1.0])
    assert holm([0.2]) == [0.2]
    assert holm([]) == []


def test_holm_equals_statsmodels_rule_on_a_longer_list():
    # sorted 0.001 0.008 0.039 0.041 0.042: times 5, 4, 3, 2, 1 -> 0.005 0.032 0.117 0.082 0.042, then running maximum
    assert holm([0.041, 0.001, 0.042, 0.008, 0.039]) == approx([0.117, 0.005, 0.117, 0.032, 0.117])


def test_pass_at_k_by_hand():
    assert pass_at_k(4, 1, 1) == approx(1 / 4)
    assert pass_at_k(4, 1, 2) == approx(1 - 3 / 6)  # C(3,2) / C(4,2)
    assert pass_at_k(4, 2, 3) == 1.0  # two wrong ones cannot fill three draws
    assert pass_at_k(16, 0, 16) == 0.0


def test_pass_at_k_is_the_mean_over_all_draws():
    from itertools import combinations

    outcomes = [1, 0, 0, 1, 0, 0]
    draws = [any(draw) for draw in combinations(outcomes, 3)]
    assert pass_at_k(6, 2, 3) == approx(sum(draws) / len(draws))


@pytest.mark.parametrize(("n", "c", "k"), [(4, 5, 1), (4, -1, 1), (2, 1, 3), (2, 1, 0)])
def test_pass_at_k_refuses_what_it_cannot_estimate(n, c, k):
    with pytest.raises(ValueError, match=f"pass@{k}"):
        pass_at_k(n, c, k)


def test_a_small_spread_of_large_values_keeps_its_interval():
    values = [1e6, 1e6 + 1, 1e6 + 2, 1e6 + 3]
    low, high = bootstrap_ci(values)
    shifted = bootstrap_ci([v - 1e6 for v in values])
    assert (low - 1e6, high - 1e6) == pytest.approx(shifted, abs=1e-6)
    assert high - low > 1
