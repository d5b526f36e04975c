"""The tables of a check: means by kind of case, calibration by deserved score, and confusion by case."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from rlm_core.rewards.reliability.cases import Answered

SCALE = tuple(range(1, 11))


def kinds(answered: Sequence[Answered]) -> list[dict[str, Any]]:
    """Mean label and mean score of each kind of case, in the order of the cases."""
    rows = []
    for kind in dict.fromkeys(a.case.kind for a in answered):
        cases = [a for a in answered if a.case.kind == kind]
        judged = [a.first for a in cases if a.first is not None]
        row: dict[str, Any] = {"kind": kind, "n": len(cases), "judged": len(judged)}
        for name in ("precision", "recall"):
            labels = [label for a in cases if (label := getattr(a.case, name)) is not None]
            row[f"label_{name}"] = mean(labels)
            row[name] = mean([getattr(v, name) for v in judged])
        row["reward"] = mean([v.reward for v in judged])
        rows.append(row)
    return rows


def calibration(answered: Sequence[Answered]) -> list[dict[str, Any]]:
    """For each labelled score and criterion: how many cases, and the mean and the range of what the judge gave."""
    rows: list[dict[str, Any]] = []
    for name in ("precision", "recall"):
        for label in SCALE:
            given = [getattr(a.first, name) for a in answered if getattr(a.case, name) == label and a.first is not None]
            if given:
                rows.append(
                    {
                        "criterion": name,
                        "label": label,
                        "n": len(given),
                        "mean": fmean(given),
                        "low": min(given),
                        "high": max(given),
                    }
                )
    return rows


def confusion(answered: Sequence[Answered]) -> list[dict[str, Any]]:
    """How often the first verdict gave which score, by criterion, kind of case and deserved score (None: not counted)."""
    found = Counter(
        (name, a.case.kind, getattr(a.case, name), getattr(a.first, name))
        for name in ("precision", "recall")
        for a in answered
        if a.first is not None
    )
    keys = ("criterion", "kind", "label", "given")
    return [{**dict(zip(keys, key, strict=True)), "n": count} for key, count in found.items()]


def mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None
