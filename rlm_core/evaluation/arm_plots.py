"""The plots of an evaluation's arms; what each shows is in its docstring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from rlm_core.evaluation import plots

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Arms = Mapping[str, Mapping[str, Any]]
"""The section `arms` of `reports/evaluation.json`."""

MARKERS = "osD^vPXhp*<>"


def arms_figure(arms: Arms) -> Figure:
    """Forest plot: judge mean and 95 % interval of each arm."""
    shown = {name: arm for name, arm in arms.items() if arm.get("judge_mean") is not None}
    figure, axes = plots.new_figure(5.4, 0.9 + 0.36 * max(1, len(shown)))
    for row, (name, arm) in enumerate(shown.items()):
        low, high = arm.get("judge_ci95") or (arm["judge_mean"], arm["judge_mean"])
        colour = colour_of(name, arms)
        axes.plot([low, high], [row, row], color=colour, linewidth=2.5, solid_capstyle="butt")
        axes.plot([arm["judge_mean"]], [row], marker="o", color=colour, markersize=7)
    axes.set_yticks(range(len(shown)), list(shown))
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_xlim(0, 1)
    plots.label(axes, x="judge, mean and 95 % interval")
    return figure


def cost_figure(arms: Arms, *, by: Literal["tokens_mean", "cost_mean"] = "tokens_mean") -> Figure:
    """Judge mean with its interval over tokens (or cost) a question, log x. Arms that spend none are dotted lines."""
    figure, axes = plots.new_figure(5.4, 3.6 + 0.07 * len(arms))
    for place, (name, arm) in enumerate(arms.items()):
        spent, quality = arm.get(by), arm.get("judge_mean")
        if quality is None or (not spent and by == "cost_mean"):
            continue
        colour, marker = colour_of(name, arms), MARKERS[place % len(MARKERS)]
        if not spent:
            axes.axhline(quality, color=colour, linewidth=1.2, linestyle=":", label=f"{name} (none)")
            continue
        low, high = arm.get("judge_ci95") or (quality, quality)
        axes.plot([spent, spent], [low, high], color=colour, linewidth=1.5, alpha=0.6)
        axes.plot([spent], [quality], marker=marker, linestyle="", color=colour, markersize=8, label=name)
    _log_x(axes, digits=0 if by == "tokens_mean" else 4)
    axes.set_ylim(0, 1)
    plots.label(axes, x="tokens a question (log)" if by == "tokens_mean" else "cost a question (log)", y="judge, mean")
    plots.legend(figure)
    return figure


def failures_figure(arms: Arms) -> Figure:
    """Share of an arm's samples by why they are no full success, stacked; what is left of 100 % passed."""
    causes = list(dict.fromkeys(cause for arm in arms.values() for cause in arm.get("failures", {})))
    figure, axes = plots.new_figure(5.4, 1.3 + 0.34 * max(1, len(arms)))
    left = dict.fromkeys(arms, 0.0)
    for place, cause in enumerate(causes):
        colour = plots.COLOURS[place % len(plots.COLOURS)]
        for row, (name, arm) in enumerate(arms.items()):
            count = arm.get("failures", {}).get(cause, {}).get("count", 0)
            share = count / (arm.get("samples") or arm.get("n") or 1)
            axes.barh(row, share, left=left[name], height=0.66, color=colour)
            left[name] += share
        axes.barh(0, 0, color=colour, label=cause.replace("_", " "))
    _rows_of_arms(axes, arms)
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    plots.label(axes, x="share of samples")
    plots.legend(figure)
    return figure


def tokens_figure(arms: Arms) -> Figure:
    """Tokens read and written a question, side by side on a log axis."""
    shown = {name: arm for name, arm in arms.items() if arm.get("prompt_tokens_mean")}
    figure, axes = plots.new_figure(5.4, 1.3 + 0.42 * max(1, len(shown)))
    for key, shift, colour, text in (
        ("prompt_tokens_mean", -0.19, plots.COLOURS[0], "read"),
        ("completion_tokens_mean", 0.19, plots.COLOURS[1], "written"),
    ):
        rows = [row + shift for row in range(len(shown))]
        axes.barh(rows, [arm.get(key) or 0 for arm in shown.values()], height=0.36, color=colour, label=text)
    _rows_of_arms(axes, shown)
    if shown:
        _log_x(axes)
        axes.set_xlim(left=1)
    plots.label(axes, x="tokens a question (log)")
    plots.legend(figure)
    return figure


def temperature_figure(lines: Mapping[str, Sequence[tuple[float, Mapping[str, Any]]]]) -> Figure:
    """Judge mean with its interval over the sampling temperature, a line a model."""
    figure, axes = plots.new_figure(5.4, 3.4)
    for place, (model, points) in enumerate(lines.items()):
        colour = plots.COLOURS[place % len(plots.COLOURS)]
        xs = [temperature + 0.008 * (place - (len(lines) - 1) / 2) for temperature, _ in points]
        for x, (_, arm) in zip(xs, points, strict=True):
            axes.plot([x, x], arm.get("judge_ci95") or [arm["judge_mean"]] * 2, color=colour, linewidth=1.5, alpha=0.6)
        axes.plot(xs, [arm["judge_mean"] for _, arm in points], color=colour, marker=MARKERS[place], label=model)
    axes.set_ylim(0, 1)
    plots.label(axes, x="temperature (0 is greedy)", y="judge, mean")
    plots.legend(figure)
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
    figure, axes = plots.new_figure(5.4, 2.9 + 0.06 * len(arms))
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
    plots.label(axes, y="judge, mean")
    plots.legend(figure)
    return figure


def pass_figure(arms: Arms) -> Figure:
    """pass@k over k (log), a line an arm: training that only sharpens lifts the left end and not the right one."""
    figure, axes = plots.new_figure(5.4, 3.6)
    for place, (name, arm) in enumerate(arms.items()):
        points = [(int(k), value) for k, value in arm.get("pass_at", {}).items() if value is not None]
        if len(points) > 1:
            ks, values = zip(*points, strict=True)
            style: dict[str, Any] = {"marker": MARKERS[place % len(MARKERS)], "markersize": 5}
            axes.plot(ks, values, color=colour_of(name, arms), label=name, **style)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda k, _: f"{k:g}")
    axes.set_ylim(0, 1)
    plots.label(axes, x="k (log)", y="pass@k")
    plots.legend(figure)
    return figure


def colour_of(name: str, arms: Arms) -> str:
    """The same colour for an arm in every plot of a page."""
    return plots.COLOURS[list(arms).index(name) % len(plots.COLOURS)]
