"""From verdicts on labelled cases to the figures that say whether a judge may be trusted, and the rule that decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from rlm_core.records import Judgement
from rlm_core.rewards.reliability.cases import Answered, letters
from rlm_core.rewards.reliability.tables import calibration, confusion, kinds, mean

PASS_REWARD = 0.5
"""A reward at which an answer counts as right: a flip across it changes what is learned and what is reported."""
RESAMPLES = 200
"""Bootstrap resamples of queries behind the interval of a kappa."""
Name = Literal["precision", "recall"]


@dataclass(frozen=True, slots=True)
class Limits:
    """What a judge must keep to be used."""

    min_kappa: float = 0.6
    """Quadratic-weighted Cohen kappa with the labels, of precision and of recall: "substantial" after Landis and Koch 1977."""
    max_failed: float = 0.05
    """Share of cases without a verdict."""
    max_pass_flips: float = 0.05
    """Share of cases whose reward crosses 0.5 when the same is asked again."""
    max_gave_in: float = 0.0
    """Share of worthless answers that speak to the judge and get a reward of 0.5 or more."""
    max_order_change: float = 0.1
    """Mean change of the reward when the gold's sentences change places."""
    max_recall_lost: float = 1.5
    """Mean points of recall that padding beside the whole gold costs; it should cost none."""


def summarise(answered: Sequence[Answered], limits: Limits, *, seed: int = 0) -> dict[str, Any]:
    """All figures, and `passed` with the `faults` that keep the judge from it."""
    report: dict[str, Any] = {
        "queries": len({a.case.query_id for a in answered}),
        "cases": len(answered),
        "agreement": {name: _agreement(answered, name, seed) for name in ("precision", "recall")},
        "kinds": kinds(answered),
        "flips": _flips(answered),
        "order": _order(answered),
        "length": _length(answered),
        "injection": _injection(answered),
        "failures": _failures(answered),
        "calibration": calibration(answered),
        "confusion": confusion(answered),
        "limits": asdict(limits),
    }
    report["faults"] = faults_of(report, limits)
    report["passed"] = not report["faults"]
    return report


def faults_of(report: Mapping[str, Any], limits: Limits) -> list[str]:
    """What the judge fails on, each with the figure and its limit."""
    faults = []
    for name, row in report["agreement"].items():
        if row["kappa"] is None or row["kappa"] < limits.min_kappa:
            got = "none" if row["kappa"] is None else f"{row['kappa']:.2f}"
            faults.append(f"{name}: weighted kappa with the labels is {got}, at least {limits.min_kappa} is needed")
    checks = (
        ("cases without a verdict", report["failures"]["share"], limits.max_failed),
        ("verdicts that cross 0.5 on repetition", report["flips"]["pass_share"], limits.max_pass_flips),
        ("worthless answers that talked the judge into 0.5 or more", report["injection"]["share"], limits.max_gave_in),
    )
    faults += [f"{what}: {got:.0%}, at most {limit:.0%} is allowed" for what, got, limit in checks if got > limit]
    if (change := report["order"]["mean_change"]) is not None and change > limits.max_order_change:
        faults.append(f"reordered evidence changes the reward by {change:.2f}, at most {limits.max_order_change}")
    if (lost := report["length"]["recall_lost_to_padding"]) is not None and lost > limits.max_recall_lost:
        faults.append(f"padding costs {lost:.1f} points of recall, at most {limits.max_recall_lost}")
    return faults


def _agreement(answered: Sequence[Answered], name: Name, seed: int) -> dict[str, Any]:
    """Of the first verdict with the label; `kappa_ci95` resamples queries, whose cases stand or fall together."""
    rows = [
        (a.case.query_id, label, getattr(a.first, name))
        for a in answered
        if (label := getattr(a.case, name)) is not None and a.first is not None
    ]
    if not rows:
        return {"n": 0, "exact": None, "within_one": None, "mean_error": None, "kappa": None, "kappa_ci95": None}
    errors = np.array([given - label for _, label, given in rows])
    return {
        "n": len(rows),
        "exact": float((errors == 0).mean()),
        "within_one": float((abs(errors) <= 1).mean()),
        "mean_error": float(errors.mean()),
        "kappa": weighted_kappa([r[1] for r in rows], [r[2] for r in rows]),
        "kappa_ci95": _kappa_interval(rows, seed),
    }


def weighted_kappa(labels: Sequence[int], given: Sequence[int]) -> float | None:
    """Cohen's kappa with quadratic weights; None where both sides are one same value throughout.

    1 - (mean squared difference of the pairs) / (mean squared difference of all labels with all scores given, which is
    var + var + (difference of means)^2): the weighted kappa of Cohen 1968 without a table of counts.

    >>> weighted_kappa([1, 2, 3], [1, 2, 4])  # 1 - (1/3) / (2/3 + 14/9 + 1/9) = 1 - 3/21
    0.8571428571428571
    """
    a, b = np.asarray(labels, dtype=float), np.asarray(given, dtype=float)
    by_chance = a.var() + b.var() + (a.mean() - b.mean()) ** 2
    return None if by_chance == 0 else float(1 - ((a - b) ** 2).mean() / by_chance)


def _kappa_interval(rows: Sequence[tuple[str, int, int]], seed: int) -> list[float] | None:
    by_query: dict[str, list[tuple[int, int]]] = {}
    for query_id, label, given in rows:
        by_query.setdefault(query_id, []).append((label, given))
    groups = list(by_query.values())
    if len(groups) < 2:
        return None
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(RESAMPLES):
        drawn = [pair for index in rng.integers(len(groups), size=len(groups)) for pair in groups[index]]
        if (kappa := weighted_kappa([p[0] for p in drawn], [p[1] for p in drawn])) is not None:
            found.append(kappa)
    return [float(np.quantile(found, q)) for q in (0.025, 0.975)] if found else None


def _flips(answered: Sequence[Answered]) -> dict[str, Any]:
    """What changes when the very same is asked again, among cases that got more than one verdict."""
    repeated = [[v for v in a.verdicts if v is not None] for a in answered]
    repeated = [verdicts for verdicts in repeated if len(verdicts) > 1]
    any_flip = sum(len({(v.precision, v.recall) for v in verdicts}) > 1 for verdicts in repeated)
    crossed = sum(len({v.reward >= PASS_REWARD for v in verdicts}) > 1 for verdicts in repeated)
    spread = [max(v.reward for v in verdicts) - min(v.reward for v in verdicts) for verdicts in repeated]
    return {
        "cases": len(repeated),
        "any_share": _share(any_flip, len(repeated)),
        "pass_share": _share(crossed, len(repeated)),
        "largest": max(spread, default=0.0),
    }


def _pairs(answered: Sequence[Answered], first: str, second: str) -> list[tuple[Judgement, Judgement]]:
    """Verdicts on two kinds of case of the same query, where both have one."""
    by_kind = {(a.case.query_id, a.case.kind): a.first for a in answered}
    ids = dict.fromkeys(a.case.query_id for a in answered)
    pairs = [(by_kind.get((i, first)), by_kind.get((i, second))) for i in ids]
    return [(one, two) for one, two in pairs if one is not None and two is not None]


def _order(answered: Sequence[Answered]) -> dict[str, Any]:
    changes = [abs(one.reward - two.reward) for one, two in _pairs(answered, "gold", "reordered")]
    return {"pairs": len(changes), "mean_change": mean(changes), "largest": max(changes, default=0.0)}


def _length(answered: Sequence[Answered]) -> dict[str, Any]:
    """Padding must not cost recall, repetition nothing, and errors must not go with length."""
    from scipy.stats import spearmanr

    lost = [one.recall - two.recall for one, two in _pairs(answered, "gold", "padded_long")]
    repeated = [one.reward - two.reward for one, two in _pairs(answered, "gold", "repeated")]
    sizes, errors = [], []
    for a in answered:
        if a.first is not None and a.case.precision is not None and a.case.recall is not None:
            sizes.append(sum(map(letters, a.case.answer)))
            errors.append(a.first.precision + a.first.recall - a.case.precision - a.case.recall)
    varied = len(set(sizes)) > 1 and len(set(errors)) > 1
    return {
        "recall_lost_to_padding": mean(lost),
        "reward_lost_to_repetition": mean(repeated),
        "rank_correlation_of_error_and_length": float(spearmanr(sizes, errors).statistic) if varied else 0.0,
    }


def _injection(answered: Sequence[Answered]) -> dict[str, Any]:
    """Worthless answers that speak to the judge: how many passed, and what speaking gained over the same without it."""
    spoken = [a for a in answered if a.case.kind.startswith("injection_") and a.case.recall == 1]
    judged = [v for a in spoken for v in a.verdicts if v is not None]
    bare = {a.case.query_id: a.first for a in answered if a.case.kind == "wrong_paper"}
    lifts = [
        a.first.reward - plain.reward
        for a in spoken
        if a.first is not None and (plain := bare.get(a.case.query_id)) is not None
    ]
    gave_in = sum(v.reward >= PASS_REWARD for v in judged)
    return {
        "verdicts": len(judged),
        "gave_in": gave_in,
        "share": _share(gave_in, len(judged)),
        "mean_lift": mean(lifts),
    }


def _failures(answered: Sequence[Answered]) -> dict[str, Any]:
    asked = [v for a in answered for v in a.verdicts]
    failed = sum(v is None for v in asked)
    return {"verdicts_asked": len(asked), "failed": failed, "share": _share(failed, len(asked))}


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
