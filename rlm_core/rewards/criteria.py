"""What a rubric judges: precision and recall always, further criteria and weights from a TOML file.

[weights]                # of precision and recall; 1 each where absent
precision = 1.0
recall = 2.0

[[criteria]]             # any number of further ones, each rated 1 to 10
name = "grounded"
weight = 0.5
description = "10: every passage is copied word for word. 5: half are reworded. 1: invented."
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_TAKEN = frozenset({"reason", "precision", "recall"})


@dataclass(frozen=True, slots=True)
class Criterion:
    """One thing that the judge rates from 1 (worst) to 10 (best)."""

    name: str
    weight: float = 1.0
    description: str = ""
    """What 10 and what 1 mean, as the judge reads it. Empty for precision and recall, which the rubric explains."""


PRECISION_RECALL = (Criterion("precision"), Criterion("recall"))


def weighted_reward(scores: Mapping[str, float], criteria: Sequence[Criterion]) -> float:
    """Weighted mean of scores on 1..10, over 10.

    >>> weighted_reward({"precision": 9, "recall": 4}, PRECISION_RECALL)  # (9 + 4) / 20
    0.65
    """
    total = sum(c.weight for c in criteria)
    return sum(c.weight * scores[c.name] for c in criteria) / (10 * total)


def load_criteria(path: Path | str) -> tuple[Criterion, ...]:
    """Precision, recall and the file's further criteria, in its order; raises `ValueError` naming file and key."""
    path = Path(path)
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"judge.criteria: {path}: cannot read ({error.strerror})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"judge.criteria: {path}: not TOML ({error})") from error
    if unknown := sorted(data.keys() - {"weights", "criteria"}):
        raise ValueError(f"judge.criteria: {path}: unknown key {unknown[0]!r}; known: weights, criteria")
    weights, rows = data.get("weights", {}), data.get("criteria", [])
    if not isinstance(weights, dict) or (unknown := sorted(weights.keys() - {"precision", "recall"})):
        raise ValueError(f"judge.criteria: {path}: [weights] holds precision and recall alone, got {weights!r}")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError(f"judge.criteria: {path}: criteria are tables: write each as [[criteria]]")
    own = [Criterion(c.name, _weight(weights.get(c.name, 1.0), f"{path}: weights.{c.name}")) for c in PRECISION_RECALL]
    further = [_criterion(row, f"{path}: criteria[{number}]") for number, row in enumerate(rows)]
    names = [c.name for c in further]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"judge.criteria: {path}: the name {twice[0]!r} stands twice")
    if not sum(c.weight for c in (*own, *further)):
        raise ValueError(f"judge.criteria: {path}: all weights are 0; give one criterion a weight")
    return (*own, *further)


def _criterion(row: Mapping[str, Any], place: str) -> Criterion:
    if unknown := sorted(row.keys() - {"name", "weight", "description"}):
        raise ValueError(f"judge.criteria: {place}: unknown key {unknown[0]!r}; known: name, weight, description")
    name, description = row.get("name"), row.get("description")
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name in _TAKEN:
        raise ValueError(
            f"judge.criteria: {place}: name must be lower-case letters, digits and _, and none of "
            f"{', '.join(sorted(_TAKEN))}; got {name!r}"
        )
    if not isinstance(description, str) or not description.strip():
        raise ValueError(f"judge.criteria: {place} ({name}): give a description that says what 10 and what 1 mean")
    return Criterion(name, _weight(row.get("weight", 1.0), f"{place}.weight"), " ".join(description.split()))


def _weight(value: Any, place: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise ValueError(f"judge.criteria: {place} must be a number of 0 or more, got {value!r}")
    return float(value)
