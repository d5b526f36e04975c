"""Curves of training from `reports/training.json` and `reports/sft.json`, whatever other keys these hold."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from rlm_core.evaluation.plots import curve_figure, to_svg

Points = list[tuple[float, float]]

GROUPS: tuple[tuple[str, str], ...] = (
    ("Reward against the held-out guard", r"^(val_)?(reward_mean|evidence_f1)$|held_out|guard"),
    ("Reward by tier", r"reward_tier"),
    ("Judge's criteria (1 to 10)", r"judge_(precision|recall)"),
    ("Loss", r"(^|_)loss$"),
    ("Answers and format", r"answered|format(?!_error)|success"),
    ("Errors and cuts", r"error_share|length_cut|failed|failures|unscored"),
    ("Clipping", r"clipped|ratio_outside"),
    ("Tokens of a turn", r"turn_tokens"),
    ("Tokens of a step", r"tokens(?!_per_second)"),
    ("Turns and children", r"turns|children|depth"),
    ("Divergence from the start", r"(^|_|\.)kl"),
    ("Entropy", r"entropy"),
    ("Gradient norm", r"grad_norm"),
    ("Seconds of a step", r"seconds_"),
)
"""Title of a plot, and the keys that it takes; each key goes to the first group that fits."""
MOST_SERIES = 6
FIRST = 4
"""Plots of a record that stand open on the page; the others are folded away."""


def rows_of(data: Any, keys: Sequence[str] = ("steps", "history", "log", "rows")) -> list[Mapping[str, Any]]:
    """The rows of a training record: the first list of objects under one of `keys`, or the record itself."""
    found = (
        next((data[key] for key in keys if isinstance(data.get(key), list)), []) if isinstance(data, Mapping) else data
    )
    return [row for row in found if isinstance(row, Mapping)] if isinstance(found, list) else []


def series_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, Points]:
    """Every finite number of the rows over its step, by key; nested ones as `outer.inner`. Single points are left out."""
    series: dict[str, Points] = {}
    for place, row in enumerate(rows):
        step = row.get("step", place + 1)
        for key, value in _numbers(row):
            if key not in ("step", "epoch", "time") and isinstance(step, int | float):
                series.setdefault(key, []).append((float(step), value))
    return {key: points for key, points in series.items() if len(points) > 1}


def _numbers(row: Mapping[str, Any], prefix: str = "") -> list[tuple[str, float]]:
    found: list[tuple[str, float]] = []
    for key, value in row.items():
        if isinstance(value, Mapping):
            found += _numbers(value, f"{prefix}{key}.")
        elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            found.append((f"{prefix}{key}", float(value)))
    return found


def grouped(series: Mapping[str, Points]) -> list[tuple[str, dict[str, Points]]]:
    """Series by plot, in the order of `GROUPS`. Keys that fit none, and series that are 0 throughout, are not drawn."""
    plots: dict[str, dict[str, Points]] = {title: {} for title, _ in GROUPS}
    for key, points in series.items():
        title = next((title for title, pattern in GROUPS if re.search(pattern, key.lower())), None)
        if title is not None and len(plots[title]) < MOST_SERIES and any(value for _, value in points):
            plots[title][key] = points
    return [(title, chosen) for title, chosen in plots.items() if chosen]


def beside(train: Mapping[str, Points], held_out: Mapping[str, Points]) -> dict[str, Points]:
    """All series, each held-out one (`val_x`, `eval_x`) right after its own `x`."""
    joined: dict[str, Points] = {}
    for key, points in train.items():
        joined[key] = points
        joined |= {other: held_out[other] for other in (f"val_{key}", f"eval_{key}") if other in held_out}
    return joined | {key: points for key, points in held_out.items() if key not in joined}


def curves(data: Any, name: str) -> list[dict[str, str]]:
    """`{"title", "svg"}` of each plot of a training record; none for an empty or missing one."""
    if data is None:
        return []
    drawn = grouped(beside(series_of(rows_of(data)), _held_out(data)))
    return [{"title": title, "svg": to_svg(curve_figure(chosen), f"{name} {title}")} for title, chosen in drawn]


def _held_out(data: Any) -> dict[str, Points]:
    return series_of(rows_of(data, ("validation",))) if isinstance(data, Mapping) else {}


def unsound_guard(data: Any) -> list[str]:
    """A sentence where the held-out judge fails its own check and was used all the same."""
    check = data.get("guard_judge_check") if isinstance(data, Mapping) else None
    if not check or check["passed"]:
        return []
    return [f"UNSOUND held-out judge: it fails its own check and was used all the same: {'; '.join(check['faults'])}."]


APART = 0.02
"""Fall of the guard from which it is said to part from the reward."""


def guard_note(data: Any) -> tuple[str, bool]:
    """How the held-out guard (evidence F1) moved while the reward did, on validation; True where they part.

    A reward that rises while the guard falls is the mark of a policy that has learned to please its judge.
    """
    held_out = _held_out(data)
    reward, guard = held_out.get("val_reward_mean"), held_out.get("val_evidence_f1")
    if not reward or not guard:
        return "", False
    up, moved = reward[-1][1] - reward[0][1], guard[-1][1] - guard[0][1]
    apart = up > 0 and moved < -APART
    text = f"On validation the reward moved by {up:+.3f} from first to last, the guard (evidence F1) by {moved:+.3f}"
    if apart:
        return f"{text}: they part; the judge may have been learned, not the task.", True
    return f"{text}.", False
