"""Means and intervals over two crossed sources of chance: the questions, and the seeds of training.

Legend: S seeds, Q questions; `table_SQ[s, q]` is the mean reward of the samples of question q by the model of seed s.

A resample draws S seeds and Q questions, each with replacement, and takes the mean of the rows and columns drawn (the
"pigeonhole" bootstrap of crossed factors, Owen 2007, arXiv 0712.1111, which is conservative). Differences are
paired: both variants are read at the same seeds and questions. Intervals are percentile intervals.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Estimate:
    mean: float
    low: float
    high: float


def crossed_interval(table_SQ: np.ndarray, *, confidence: float = 0.95, samples: int = 4000, seed: int = 0) -> Estimate:
    """Mean of the table with its interval. With one seed only questions are resampled, and with one question only seeds.

    NaN marks a question without a score for that seed; it is left out of every mean. Raises `ValueError` for a table
    without a number.
    """
    table_SQ = np.asarray(table_SQ, dtype=float)
    if table_SQ.ndim != 2 or not np.isfinite(table_SQ).any():
        raise ValueError(f"a table of seeds x questions with at least one score is needed, got shape {table_SQ.shape}")
    known_SQ = np.isfinite(table_SQ)
    values_SQ = np.where(known_SQ, table_SQ, 0.0)
    rng = np.random.default_rng(seed)
    seeds_BS = rng.multinomial(len(table_SQ), np.full(len(table_SQ), 1 / len(table_SQ)), size=samples)
    width = table_SQ.shape[1]
    questions_BQ = rng.multinomial(width, np.full(width, 1 / width), size=samples)
    sums_B = ((seeds_BS @ values_SQ) * questions_BQ).sum(axis=1)
    counts_B = ((seeds_BS @ known_SQ) * questions_BQ).sum(axis=1)
    means_B = sums_B[counts_B > 0] / counts_B[counts_B > 0]
    tail = (1 - confidence) / 2
    low, high = (float(np.quantile(means_B, share)) for share in (tail, 1 - tail))
    return Estimate(float(np.nanmean(table_SQ)), low, high)


def paired_interval(first_SQ: np.ndarray, second_SQ: np.ndarray, *, samples: int = 4000, seed: int = 0) -> Estimate:
    """`first - second` at the same seeds and questions; where either lacks a score, both are left out."""
    if first_SQ.shape != second_SQ.shape:
        raise ValueError(f"variants of {first_SQ.shape} and {second_SQ.shape} seeds x questions cannot be paired")
    return crossed_interval(first_SQ - second_SQ, samples=samples, seed=seed)
