"""The plots of an evaluation and of training, as figures: PNG for `reports/plots/`, SVG for the page.

Ink is drawn in one marked colour, which the SVG turns into `currentColor`: plots follow the page into the dark.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#2a2b2d"
COLOURS = ("#2f7ed8", "#d9822b", "#3a9d5d", "#b5529c", "#8a6fd1", "#6b8a99", "#c0504d")
MARKERS = "osD^vPX"


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
    """Under the plot, where it hides no point."""
    if not figure.axes[0].get_legend_handles_labels()[0]:
        return
    figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=8, labelcolor=INK, columnspacing=1.2)


def arms_figure(arms: Mapping[str, Mapping[str, Any]]) -> Figure:
    """Forest plot: judge mean and 95 % interval of each arm."""
    shown = {name: arm for name, arm in arms.items() if arm.get("judge_mean") is not None}
    figure, axes = new_figure(5.4, 0.9 + 0.36 * max(1, len(shown)))
    for row, (name, arm) in enumerate(shown.items()):
        low, high = arm.get("judge_ci95") or (arm["judge_mean"], arm["judge_mean"])
        colour = colour_of(name, arms)
        axes.plot([low, high], [row, row], color=colour, linewidth=2.5, solid_capstyle="butt")
        axes.plot([arm["judge_mean"]], [row], marker="o", color=colour, markersize=7)
    axes.set_yticks(range(len(shown)), list(shown))
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_xlim(0, 1)
    label(axes, x="judge, mean and 95 % interval")
    return figure


def cost_figure(arms: Mapping[str, Mapping[str, Any]]) -> Figure:
    """Judge mean over tokens a question, log x. Arms without a model have no tokens and stand in the legend only."""
    figure, axes = new_figure(5.4, 3.8)
    for place, (name, arm) in enumerate(arms.items()):
        tokens, quality = arm.get("tokens_mean"), arm.get("judge_mean")
        if quality is None:
            continue
        colour, marker = colour_of(name, arms), MARKERS[place % len(MARKERS)]
        if not tokens:
            axes.axhline(quality, color=colour, linewidth=1, linestyle=":", label=f"{name} (no tokens)")
            continue
        axes.plot([tokens], [quality], marker=marker, linestyle="", color=colour, markersize=8, label=name)
    _log_tokens(axes)
    axes.set_ylim(0, 1)
    label(axes, x="tokens a question (log)", y="judge, mean")
    legend(figure)
    return figure


def _log_tokens(axes: Axes) -> None:
    """A log axis of counts with ticks at 1, 2 and 5, written out."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_xscale("log")
    axes.margins(x=0.15)
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda tokens, _: f"{tokens:,.0f}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def tiers_figure(arms: Mapping[str, Mapping[str, Any]]) -> Figure:
    """Judge mean by tier (papers that hold the evidence), bars side by side."""
    tiers = sorted({tier for arm in arms.values() for tier in arm.get("by_tier", {})})
    figure, axes = new_figure(5.4, 3.4)
    width = 0.8 / max(1, len(arms))
    for place, (name, arm) in enumerate(arms.items()):
        rows = [(i, arm["by_tier"][t]["judge_mean"]) for i, t in enumerate(tiers) if t in arm.get("by_tier", {})]
        rows = [(i, value) for i, value in rows if value is not None]
        offset = (place - (len(arms) - 1) / 2) * width
        axes.bar([i + offset for i, _ in rows], [v for _, v in rows], width, color=colour_of(name, arms), label=name)
    axes.set_xticks(range(len(tiers)), [f"{tier} paper{'' if tier == '1' else 's'}" for tier in tiers])
    axes.set_ylim(0, 1)
    label(axes, y="judge, mean")
    legend(figure)
    return figure


def curve_figure(
    series: Mapping[str, Sequence[tuple[float, float]]], *, x: str = "step", y: str = "", height: float = 3.0
) -> Figure:
    """Lines over steps; (step, value) points of each series."""
    from matplotlib.ticker import MaxNLocator

    figure, axes = new_figure(5.4, height)
    for place, (name, points) in enumerate(series.items()):
        steps, values = [p[0] for p in points], [p[1] for p in points]
        marker = "o" if len(points) < 30 else ""
        axes.plot(steps, values, color=COLOURS[place % len(COLOURS)], marker=marker, markersize=4, label=name)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    label(axes, x=x, y=y)
    if len(series) > 1:
        legend(figure)
    return figure


def colour_of(name: str, arms: Mapping[str, Any]) -> str:
    """The same colour for an arm in every plot of a page."""
    return COLOURS[list(arms).index(name) % len(COLOURS)]


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
    return text.replace("<svg", '<svg role="img"', 1).strip()
