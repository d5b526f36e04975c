"""The calibration plot: what the judge gave against what the answer deserves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def save_calibration(report: Mapping[str, Any], path: Path) -> None:
    """Write a PNG: a panel for precision and one for recall."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(f"{report['judge']}: {report['cases']} labelled answers of {report['queries']} queries")
    for axes, name in zip(figure.subplots(1, 2, sharey=True), ("precision", "recall"), strict=True):
        draw_calibration(axes, [row for row in report["calibration"] if row["criterion"] == name])
        kappa = report["agreement"][name]["kappa"]
        axes.set_title(f"{name}: weighted kappa {'none' if kappa is None else f'{kappa:.2f}'}")
        axes.set_xlabel("score the answer deserves")
    figure.axes[0].set_ylabel("score the judge gave")
    figure.axes[0].legend(loc="upper left", fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def draw_calibration(axes: Axes, rows: Sequence[Mapping[str, Any]], *, ink: str = "black") -> None:
    """One criterion's rows of `report["calibration"]`: the mean score by labelled score, the range of scores, the number of
    answers, and the line of a perfect judge."""
    labels = [row["label"] for row in rows]
    means = [row["mean"] for row in rows]
    spread = [[m - r["low"] for m, r in zip(means, rows, strict=True)], [r["high"] - r["mean"] for r in rows]]
    axes.plot([1, 10], [1, 10], color="0.6", linewidth=1, label="perfect")
    axes.errorbar(labels, means, yerr=spread, fmt="o", markersize=4, capsize=2, label="mean and range")
    for row in rows:
        place = (row["label"], row["mean"])
        axes.annotate(str(row["n"]), place, textcoords="offset points", xytext=(5, -9), size=7, color=ink)
    axes.set_xlim(0.5, 10.5)
    axes.set_ylim(0.5, 10.5)
