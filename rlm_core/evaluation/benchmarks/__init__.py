"""Benchmarks: questions with a gold answer and a score of their own, made here or read from files that the user has.

| name | what | data |
|---|---|---|
| `evidence` | the project's own test split | `path`: the project folder; `data/queries/test.jsonl`, `data/parsed/` |
| `evidence-inference` | human-marked evidence in medical papers | `path`: the .jsonl.gz; distractor papers fill up to `size` |
| `oolong-pairs` | 20 tasks over pairs of users | made here, or questions of a TREC file at `path` |
| `mrcr` | one of several equal requests in a long conversation | made here |
| `oolong` | counts and labels over many lines | a file of yours |
| `longbench-pro` | 23 of 25 tasks over long documents | a file of yours |
| `browsecomp-plus` | answers in a few of many web documents | a file of yours |
| `longcot-mini` | problems to take apart | a file of yours |
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rlm_core.evaluation.benchmarks import (
    browsecomp_plus,
    evidence,
    evidence_inference,
    longbench_pro,
    longcot,
    mrcr,
    oolong,
    oolong_pairs,
)
from rlm_core.evaluation.benchmarks.item import BenchmarkItem

__all__ = ["BENCHMARKS", "BenchmarkItem", "load_benchmark"]

BENCHMARKS: dict[str, Callable[[Path | None, int, int], list[BenchmarkItem]]] = {
    "oolong-pairs": oolong_pairs.load,
    "mrcr": mrcr.load,
    "evidence-inference": evidence_inference.load,
    "evidence": evidence.load,
    "oolong": oolong.load,
    "longbench-pro": longbench_pro.load,
    "browsecomp-plus": browsecomp_plus.load,
    "longcot-mini": longcot.load,
}


def load_benchmark(name: str, path: Path | str | None = None, size: int = 32_768, seed: int = 0) -> list[BenchmarkItem]:
    """The items of a benchmark; equal arguments give equal items.

    `size` is the tokens of an item's context, about; `evidence` takes its contexts as they are. Raises `ValueError` for an
    unknown name, a size that cannot hold an item, and a file that is missing or not in the expected schema.
    """
    if name not in BENCHMARKS:
        raise ValueError(f"unknown benchmark {name!r}; known: {', '.join(sorted(BENCHMARKS))}")
    if not isinstance(size, int) or size < 1:
        raise ValueError(f"benchmark {name}: size is a whole number of tokens, at least 1, got {size!r}")
    return BENCHMARKS[name](Path(path) if path is not None else None, size, seed)
