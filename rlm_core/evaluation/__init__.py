"""Benchmarks, evaluation arms and baselines, and the statistics that compare them."""

from rlm_core.evaluation.benchmarks import BENCHMARKS, BenchmarkItem, load_benchmark
from rlm_core.evaluation.statistics import PairedDifference, bootstrap_ci, holm, paired_difference, pass_at_k

__all__ = [
    "BENCHMARKS",
    "BenchmarkItem",
    "PairedDifference",
    "bootstrap_ci",
    "holm",
    "load_benchmark",
    "paired_difference",
    "pass_at_k",
]
