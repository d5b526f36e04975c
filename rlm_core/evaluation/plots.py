"""The style of all plots, curves of training, and figures as files: PNG for `reports/plots/`, SVG for the page.

Ink is drawn in one marked colour, which the SVG turns into `currentColor`: plots follow the page into the dark.
"""

from __future__ import annotations

import html
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#2a2b2d"
COLOURS = (
    "#2f7ed8", "#d9822b", "#3a9d5d", "#b5529c", "#8a6fd1", "#6b8a99",
    "#c0504d", "#2aa3a3", "#b08d2e", "#e377c2", "#7f9c3b", "#5b6ee1",
    "#c76b3a", "#4fae8a", "#a0522d", "#9a8fbf",
)  # fmt: skip
"""Told apart on white and on black."""


def new_figure(width: float, height: float) -> tuple[Figure, Axes]:
    """A transparent figure (inches) with one pair of axes in our style; holds no global state of matplotlib's."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    figure.patch.set_alpha(0)
    axes = figure.add_subplot()
    axes.patch.set_alpha(0)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(INK)
    axes.tick_params(which="both", colors=INK, labelsize=9)
    axes.grid(True, color=INK, alpha=0.12, linewidth=0.7)
    axes.set_axisbelow(True)
    return figure, axes


def label(axes: Axes, *, x: str = "", y: str = "") -> None:
    axes.set_xlabel(x, color=INK, fontsize=9)
    axes.set_ylabel(y, color=INK, fontsize=9)


def legend(figure: Figure) -> None:
    """Under the plot, where it hides no point; as many columns as its longest text leaves room for."""
    labels = figure.axes[0].get_legend_handles_labels()[1]
    if not labels:
        return
    columns = max(1, min(4, 64 // (max(map(len, labels)) + 5)))
    figure.legend(
        loc="outside lower center", ncols=columns, frameon=False, fontsize=8, labelcolor=INK, columnspacing=1.2
    )


def curve_figure(
    series: Mapping[str, Sequence[tuple[float, float]]], *, x: str = "step", y: str = "", height: float = 3.0
) -> Figure:
    """Lines over steps; (step, value) points of each series."""
    from matplotlib.ticker import MaxNLocator

    figure, axes = new_figure(5.4, height)
    colours: dict[str, str] = {}
    for name, points in series.items():
        held_out = name.startswith(HELD_OUT)
        own = name.removeprefix("val_").removeprefix("eval_")
        colour = colours.setdefault(own, COLOURS[len(colours) % len(COLOURS)])
        steps, values = [p[0] for p in points], [p[1] for p in points]
        beside = held_out and own in series
        style: dict[str, Any] = {
            "marker": "o" if held_out or len(points) < 30 else "",
            "markersize": 6 if held_out else 3,
        }
        style |= {"linewidth": 2.2 if held_out else 1.3, "linestyle": "--" if beside else "-"}
        axes.plot(steps, values, color=colour, label=spoken(name), **style)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    label(axes, x=x, y=y)
    if len(series) > 1:
        legend(figure)
    return figure


HELD_OUT = ("val_", "eval_")
"""What the keys of held-out figures start with."""


def spoken(key: str) -> str:
    """A key as a legend has it: `val_evidence_f1` is "evidence f1, held out"."""
    own = key.removeprefix("val_").removeprefix("eval_").replace("_", " ").replace(".", " ")
    return f"{own}, held out" if key.startswith(HELD_OUT) else own


def save_png(figure: Figure, path: Path) -> None:
    """On white, for viewers that know no transparency."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="png", dpi=150, facecolor="white", metadata={"Software": None})


def to_svg(figure: Figure, title: str) -> str:
    """An inline `<svg>` that scales with its box and takes the page's text colour; equal figures give equal text."""
    import matplotlib

    out = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": title, "font.family": "sans-serif"}):
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    text = text[text.index("<svg") :].replace(INK, "currentColor")
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    text = re.sub(r' id="(?:figure|axes|patch|line2d|text|matplotlib|xtick|ytick|legend)[^"]*"', "", text)
    return text.replace("<svg", f'<svg role="img" aria-label="{html.escape(title)}"', 1).strip()
