"""Intervals, paired comparisons and pass@k for small, clustered evaluations.

Legend: N values, K clusters (values that share a paper stand or fall together, so papers are resampled, not values).

Intervals are BCa bootstrap intervals (Efron 1987, by `scipy.stats.bootstrap`) at a widened nominal level: the bootstrap
of K units is too narrow by about sqrt((K-1)/K) and uses a normal where a t is due, so the level is expanded
as in Hesterberg, "What Teachers Should Know About the Bootstrap" (2015), section 5.1. p-values of paired differences come from
flipping the signs of whole clusters, which stays valid with few clusters where a bootstrap p-value does not.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

EXACT_FLIPS = 12
"""Up to this many clusters, all 2^K sign patterns are tried and the p-value is exact."""


def bootstrap_ci(
    values: Sequence[float | None],
    *,
    confidence: float = 0.95,
    samples: int = 2000,
    seed: int = 0,
    clusters: Sequence[Hashable] | None = None,
) -> tuple[float, float]:
    """Interval of the mean of `values`; `clusters` names the unit that each value belongs to.

    None is "not scored" and is left out, with its cluster's name. One value, and values that no resample can change, give
    `(mean, mean)`. Raises `ValueError` for no scored value, for NaN or infinity (a failure is None, never a
    number), for a cluster list of another length, and for a single cluster with values that differ.
    """
    _check_options(confidence, samples)
    scored, units = _scored(values, clusters)
    sums_K, counts_K = _cluster_sums(scored, units)
    mean = float(scored.sum() / len(scored))
    means_K = sums_K / counts_K
    if len(scored) == 1 or np.ptp(scored) == 0 or (len(means_K) > 1 and np.allclose(means_K, means_K[0], 1e-13, 1e-15)):
        return mean, mean
    if len(means_K) == 1:
        raise ValueError(
            f"all {len(scored)} values are in one cluster ({units[0]!r}): its mean has no spread to resample; "
            "leave out clusters to resample the values themselves"
        )
    return _bca(sums_K, counts_K, confidence, samples, seed)


def _bca(sums_K: np.ndarray, counts_K: np.ndarray, confidence: float, samples: int, seed: int) -> tuple[float, float]:
    from scipy.stats import bootstrap

    def pooled_mean(sums: np.ndarray, counts: np.ndarray, axis: int = -1) -> np.ndarray:
        return np.asarray(sums.sum(axis=axis) / counts.sum(axis=axis))

    result = bootstrap(
        (sums_K, counts_K),
        pooled_mean,
        paired=True,
        vectorized=True,
        n_resamples=samples,
        batch=max(1, min(samples, 4_000_000 // len(sums_K))),
        confidence_level=expanded_confidence(confidence, len(sums_K)),
        method="BCa",
        rng=np.random.default_rng(seed),
    )
    low, high = float(result.confidence_interval.low), float(result.confidence_interval.high)
    if math.isnan(low) or math.isnan(high):
        # Skewed data of few clusters can put every resample on one side of the mean; BCa is then undefined.
        drawn = np.asarray(result.bootstrap_distribution)
        tail = (1 - expanded_confidence(confidence, len(sums_K))) / 2
        low, high = float(np.quantile(drawn, tail)), float(np.quantile(drawn, 1 - tail))
    return low, high


def expanded_confidence(confidence: float, units: int) -> float:
    """The nominal level at which a bootstrap of `units` covers `confidence` for a mean.

    alpha'/2 = Phi(-sqrt(K/(K-1)) * t_{alpha/2, K-1}): for 0.95 and K = 10 this is 0.9829, for K = 1000 0.9502.
    """
    from scipy.stats import norm, t

    quantile = t.ppf((1 - confidence) / 2, units - 1)
    tail = float(norm.cdf(math.sqrt(units / (units - 1)) * quantile))
    return 1 - 2 * max(tail, 1e-9)


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """Mean of `first - second` over the items that both arms have a score for."""

    difference: float
    ci: tuple[float, float]
    p_value: float
    """Two-sided, by flipping signs of clusters; 1.0 when no item differs."""
    effect_size: float | None
    """Cohen's d_z: mean of the differences over their standard deviation; None when that is 0 or there is one item."""
    wins: int
    losses: int
    ties: int

    @property
    def n(self) -> int:
        return self.wins + self.losses + self.ties


def paired_difference(
    first: Sequence[float | None],
    second: Sequence[float | None],
    *,
    confidence: float = 0.95,
    samples: int = 2000,
    seed: int = 0,
    clusters: Sequence[Hashable] | None = None,
) -> PairedDifference:
    """Compare two arms item by item; items that either arm has no score for (None) are left out of both.

    Raises `ValueError` for unequal lengths, and as `bootstrap_ci` does.
    """
    if len(first) != len(second):
        raise ValueError(f"paired arms need the same items: {len(first)} against {len(second)} values")
    differences = [None if a is None or b is None else a - b for a, b in zip(first, second, strict=True)]
    interval = bootstrap_ci(differences, confidence=confidence, samples=samples, seed=seed, clusters=clusters)
    scored, units = _scored(differences, clusters)
    sums_K, _ = _cluster_sums(scored, units)
    spread = float(scored.std(ddof=1)) if len(scored) > 1 else 0.0
    return PairedDifference(
        difference=float(scored.mean()),
        ci=interval,
        p_value=sign_flip_p(sums_K, samples=max(samples, 9999), seed=seed),
        effect_size=float(scored.mean()) / spread if spread > 1e-12 else None,
        wins=int((scored > 0).sum()),
        losses=int((scored < 0).sum()),
        ties=int((scored == 0).sum()),
    )


def sign_flip_p(sums_K: np.ndarray, *, samples: int = 9999, seed: int = 0) -> float:
    """P(|sum of randomly signed clusters| >= |sum|): exact up to 12 clusters that differ from 0, else by Monte Carlo.

    Clusters of 0 change no sum and are dropped. The Monte Carlo estimate counts the observed signs too, so is never 0.
    """
    sums_K = sums_K[np.abs(sums_K) > 1e-12]
    if len(sums_K) == 0:
        return 1.0
    observed = abs(float(sums_K.sum())) - 1e-9
    if len(sums_K) <= EXACT_FLIPS:
        bits = (np.arange(2 ** len(sums_K))[:, None] >> np.arange(len(sums_K))) & 1
        return float((np.abs((2 * bits - 1) @ sums_K) >= observed).mean())
    rng = np.random.default_rng(seed)
    hits = 0
    for start in range(0, samples, 1000):
        signs = rng.choice((-1.0, 1.0), size=(min(1000, samples - start), len(sums_K)))
        hits += int((np.abs(signs @ sums_K) >= observed).sum())
    return (hits + 1) / (samples + 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjusted p-values, in the order given: reject where the result is <= alpha.

    >>> holm([0.01, 0.04, 0.03])  # sorted: 3*0.01, max(0.03, 2*0.03), max(0.06, 1*0.04)
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted = [0.0] * len(p_values)
    running = 0.0
    for rank, index in enumerate(order):
        running = max(running, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = running
    return adjusted


def pass_at_k(num_samples: int, num_correct: int, k: int) -> float:
    """Unbiased estimate of P(at least one of k samples is correct): 1 - C(n-c, k) / C(n, k) (Chen et al. 2021).

    Raises `ValueError` unless 0 <= c <= n and 1 <= k <= n: with fewer than k samples there is no unbiased estimate.
    """
    if not 0 <= num_correct <= num_samples:
        raise ValueError(f"pass@{k}: {num_correct} correct of {num_samples} samples")
    if not 1 <= k <= num_samples:
        raise ValueError(f"pass@{k} needs at least k samples, got {num_samples}")
    return 1.0 - math.comb(num_samples - num_correct, k) / math.comb(num_samples, k)


def _check_options(confidence: float, samples: int) -> None:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, got {confidence}")
    if samples < 1:
        raise ValueError(f"samples must be at least 1, got {samples}")


def _scored(values: Sequence[float | None], clusters: Sequence[Hashable] | None) -> tuple[np.ndarray, list[Hashable]]:
    """The scored values and the cluster of each; without clusters every value is its own."""
    if clusters is not None and len(clusters) != len(values):
        raise ValueError(f"{len(values)} values but {len(clusters)} clusters: give one name for each value")
    units: Sequence[Hashable] = range(len(values)) if clusters is None else clusters
    kept = [(float(v), u) for v, u in zip(values, units, strict=True) if v is not None]
    if not kept:
        raise ValueError(f"no scored value among {len(values)}: an interval needs at least one")
    for index, value in enumerate(values):
        if value is not None and not math.isfinite(value):
            raise ValueError(f"value {index} is {value}: a score that is missing is None, never NaN or infinity")
    return np.array([v for v, _ in kept]), [u for _, u in kept]


def _cluster_sums(scored_N: np.ndarray, units: Sequence[Hashable]) -> tuple[np.ndarray, np.ndarray]:
    """Sum and number of values of each cluster, in order of first appearance."""
    index: dict[Hashable, int] = {}
    rows_N = np.array([index.setdefault(unit, len(index)) for unit in units])
    return np.bincount(rows_N, weights=scored_N), np.bincount(rows_N).astype(float)
