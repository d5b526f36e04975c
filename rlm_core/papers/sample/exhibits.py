"""The table and the figure of a sample paper: numbers drawn around hand-written ranges and shapes."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import Any

_SHAPES = {
    "rise": lambda t: 0.12 + 0.78 * (1 - math.exp(-3.2 * t)) / (1 - math.exp(-3.2)),
    "fall": lambda t: 0.15 + 0.75 * math.exp(-2.6 * t),
    "late": lambda t: 0.10 + 0.80 / (1 + math.exp(-9 * (t - 0.6))),
    "hump": lambda t: 0.15 + 0.65 * math.exp(-((t - 0.42) ** 2) / 0.045),
    "flat": lambda t: 0.42 + 0.05 * math.sin(7 * t),
    "wave": lambda t: 0.5 + 0.3 * math.sin(2 * math.pi * 2.2 * t),
    "slow": lambda t: 0.2 + 0.35 * t,
}


@dataclass(frozen=True, slots=True)
class Table:
    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Figure:
    """`kind` and the data that `paper.typ` draws for it; shares are 0..1 of the axis."""

    kind: str
    caption: str
    data: dict[str, Any] = field(default_factory=dict)


def _parts(line: str) -> list[str]:
    """Cells of a line; a semicolon without a space before it belongs to the text."""
    return [part.strip() for part in line.split(" ; ")]


def read_table(head: str, rows: list[str]) -> Table:
    """From "caption ; column ; column" and rows of as many cells; raises `ValueError` when a row differs in length."""
    caption, *header = _parts(head)
    cells = tuple(tuple(cell.strip() for cell in row.split(";")) for row in rows)
    for row in cells:
        if len(row) != len(header):
            raise ValueError(f"table {caption!r}: {len(row)} cells under {len(header)} columns in the row {row}")
    return Table(caption, tuple(header), cells)


def read_figure(line: str, caption: str, key: str) -> Figure:
    """From one of three kinds of lines.

    - "line ; x label ; 0..90 ; y label ; 0..40 ; name:shape ; name:shape" (or "dots": points around the shape)
    - "bars ; y label ; 0..40 ; category, category ; series, series"
    - "scheme ; box ; box ; box"
    """
    kind, *rest = _parts(line)
    draw = random.Random(f"{key}/figure")
    if kind == "scheme":
        return Figure(kind, caption, {"boxes": rest})
    if kind == "bars":
        label, bounds, categories, series = rest
        names = [name.strip() for name in series.split(",")]
        groups = [name.strip() for name in categories.split(",")]
        heights = [[round(draw.uniform(0.25, 0.92), 3) for _ in names] for _ in groups]
        return Figure(
            kind, caption, {"y": label, "ticks": _ticks(bounds), "groups": groups, "names": names, "heights": heights}
        )
    if kind not in ("line", "dots"):
        raise ValueError(f"figure kind {kind!r} is not one of line, dots, bars, scheme")
    x_label, x_bounds, y_label, y_bounds, *curves = rest
    count = 26 if kind == "line" else 19
    series_data = []
    for curve in curves:
        name, _, shape = curve.partition(":")
        lift = draw.uniform(0.8, 1.05)
        noise = 0.012 if kind == "line" else 0.05
        points = []
        for step in range(count):
            t = step / (count - 1)
            y = _SHAPES[shape](t) * lift + draw.gauss(0, noise)
            points.append([round(0.02 + 0.95 * t, 4), round(min(max(y, 0.02), 0.98), 4)])
        series_data.append({"name": name, "points": points})
    axes = {"x": x_label, "xticks": _ticks(x_bounds), "y": y_label, "ticks": _ticks(y_bounds)}
    return Figure(kind, caption, {**axes, "series": series_data})


def _ticks(bounds: str, count: int = 5) -> list[str]:
    low, high = (float(bound) for bound in bounds.split(".."))
    steps = [low + (high - low) * step / (count - 1) for step in range(count)]
    return [f"{value:.3g}" for value in steps]
