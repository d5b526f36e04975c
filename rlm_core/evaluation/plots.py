"""The plots of an evaluation and of training, as figures: PNG for `reports/plots/`, SVG for the page.

Ink is drawn in one marked colour, which the SVG turns into `currentColor`: plots follow the page into the dark.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Arms = Mapping[str, Mapping[str, Any]]

INK = "#2a2b2d"
COLOURS = (
    "#2f7ed8", "#d9822b", "#3a9d5d", "#b5529c", "#8a6fd1", "#6b8a99",
    "#c0504d", "#2aa3a3", "#b08d2e", "#e377c2", "#7f9c3b", "#5b6ee1",
)  # fmt: skip
"""Told apart on white and on black."""
MARKERS = "osD^vPXhp*<>"


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


def arms_figure(arms: Arms) -> Figure:
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


def cost_figure(arms: Arms, *, by: Literal["tokens_mean", "cost_mean"] = "tokens_mean") -> Figure:
    """Judge mean with its interval over tokens (or cost) a question, log x. Arms without any stand on the left edge."""
    figure, axes = new_figure(5.4, 4.2)
    for place, (name, arm) in enumerate(arms.items()):
        spent, quality = arm.get(by), arm.get("judge_mean")
        if quality is None or (not spent and by == "cost_mean"):
            continue
        colour, marker = colour_of(name, arms), MARKERS[place % len(MARKERS)]
        if not spent:
            axes.axhline(quality, color=colour, linewidth=1.2, linestyle=":", label=f"{name} (no tokens)")
            continue
        low, high = arm.get("judge_ci95") or (quality, quality)
        axes.plot([spent, spent], [low, high], color=colour, linewidth=1.5, alpha=0.6)
        axes.plot([spent], [quality], marker=marker, linestyle="", color=colour, markersize=8, label=name)
    _log_x(axes, digits=0 if by == "tokens_mean" else 4)
    axes.set_ylim(0, 1)
    label(axes, x="tokens a question (log)" if by == "tokens_mean" else "cost a question (log)", y="judge, mean")
    legend(figure)
    return figure


def failures_figure(arms: Arms) -> Figure:
    """Share of an arm's samples by why they are no full success, stacked; what is left of 100 % passed."""
    causes = list(dict.fromkeys(cause for arm in arms.values() for cause in arm.get("failures", {})))
    figure, axes = new_figure(5.4, 1.3 + 0.34 * max(1, len(arms)))
    left = dict.fromkeys(arms, 0.0)
    for place, cause in enumerate(causes):
        colour = COLOURS[place % len(COLOURS)]
        for row, (name, arm) in enumerate(arms.items()):
            count = arm.get("failures", {}).get(cause, {}).get("count", 0)
            share = count / (arm.get("samples") or arm.get("n") or 1)
            axes.barh(row, share, left=left[name], height=0.66, color=colour)
            left[name] += share
        axes.barh(0, 0, color=colour, label=cause.replace("_", " "))
    _rows_of_arms(axes, arms)
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    label(axes, x="share of samples")
    legend(figure)
    return figure


def tokens_figure(arms: Arms) -> Figure:
    """Tokens read and written a question, side by side on a log axis."""
    shown = {name: arm for name, arm in arms.items() if arm.get("prompt_tokens_mean")}
    figure, axes = new_figure(5.4, 1.3 + 0.42 * max(1, len(shown)))
    for key, shift, colour, text in (
        ("prompt_tokens_mean", -0.19, COLOURS[0], "read"),
        ("completion_tokens_mean", 0.19, COLOURS[1], "written"),
    ):
        rows = [row + shift for row in range(len(shown))]
        axes.barh(rows, [arm.get(key) or 0 for arm in shown.values()], height=0.36, color=colour, label=text)
    _rows_of_arms(axes, shown)
    if shown:
        _log_x(axes)
        axes.set_xlim(left=1)
    label(axes, x="tokens a question (log)")
    legend(figure)
    return figure


def temperature_figure(lines: Mapping[str, Sequence[tuple[float, Mapping[str, Any]]]]) -> Figure:
    """Judge mean with its interval over the sampling temperature, a line a model."""
    figure, axes = new_figure(5.4, 3.4)
    for place, (model, points) in enumerate(lines.items()):
        colour = COLOURS[place % len(COLOURS)]
        xs = [temperature + 0.008 * (place - (len(lines) - 1) / 2) for temperature, _ in points]
        for x, (_, arm) in zip(xs, points, strict=True):
            axes.plot([x, x], arm.get("judge_ci95") or [arm["judge_mean"]] * 2, color=colour, linewidth=1.5, alpha=0.6)
        axes.plot(xs, [arm["judge_mean"] for _, arm in points], color=colour, marker=MARKERS[place], label=model)
    axes.set_ylim(0, 1)
    label(axes, x="temperature (0 is greedy)", y="judge, mean")
    legend(figure)
    return figure


def _rows_of_arms(axes: Axes, arms: Arms) -> None:
    axes.set_yticks(range(len(arms)), list(arms))
    axes.set_ylim(len(arms) - 0.4, -0.6)
    axes.grid(False, axis="y")


def _log_x(axes: Axes, *, digits: int = 0) -> None:
    """A log axis with ticks at 1, 2 and 5 (at powers of ten where it spans more than two of them), written out."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_xscale("log")
    axes.margins(x=0.15)
    low, high = axes.get_xlim()
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.{digits}f}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def tiers_figure(arms: Arms, by: Literal["tier", "kind"] = "tier") -> Figure:
    """Judge mean by tier (papers that hold the evidence) or by kind of question, bars side by side."""
    tiers = sorted({tier for arm in arms.values() for tier in arm.get(f"by_{by}", {})})
    figure, axes = new_figure(5.4, 3.4)
    width = 0.8 / max(1, len(arms))
    for place, (name, arm) in enumerate(arms.items()):
        table = arm.get(f"by_{by}", {})
        rows = [(i, table[t]["judge_mean"]) for i, t in enumerate(tiers) if t in table]
        rows = [(i, value) for i, value in rows if value is not None]
        offset = (place - (len(arms) - 1) / 2) * width
        axes.bar([i + offset for i, _ in rows], [v for _, v in rows], width, color=colour_of(name, arms), label=name)
    counts = {t: max(arm[f"by_{by}"][t]["n"] for arm in arms.values() if t in arm.get(f"by_{by}", {})) for t in tiers}
    names = [f"{t} paper{'' if t == '1' else 's'}" if by == "tier" else f"{t}-paper" for t in tiers]
    axes.set_xticks(range(len(tiers)), [f"{name}\n(n = {counts[t]})" for name, t in zip(names, tiers, strict=True)])
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


def colour_of(name: str, arms: Arms) -> str:
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
