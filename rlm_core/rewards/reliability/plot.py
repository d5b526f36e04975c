"""The calibration plot: what the judge gave against what the answer deserves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def save_calibration(report: Mapping[str, Any], path: Path) -> None:
    """Write a PNG: mean score by labelled score with the range of scores, a panel for precision and one for recall."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(f"{report['judge']}: {report['cases']} labelled answers of {report['queries']} queries")
    for axes, name in zip(figure.subplots(1, 2, sharey=True), ("precision", "recall"), strict=True):
        rows = [row for row in report["calibration"] if row["criterion"] == name]
        labels = [row["label"] for row in rows]
        means = [row["mean"] for row in rows]
        spread = [[m - r["low"] for m, r in zip(means, rows, strict=True)], [r["high"] - r["mean"] for r in rows]]
        axes.plot([1, 10], [1, 10], color="0.6", linewidth=1, label="perfect")
        axes.errorbar(labels, means, yerr=spread, fmt="o", markersize=4, capsize=2, label="mean and range")
        for row in rows:
            axes.annotate(
                str(row["n"]), (row["label"], row["mean"]), textcoords="offset points", xytext=(5, -9), size=7
            )
        kappa = report["agreement"][name]["kappa"]
        axes.set_title(f"{name}: weighted kappa {'none' if kappa is None else f'{kappa:.2f}'}")
        axes.set_xlabel("score the answer deserves")
        axes.set_xlim(0.5, 10.5)
        axes.set_ylim(0.5, 10.5)
    figure.axes[0].set_ylabel("score the judge gave")
    figure.axes[0].legend(loc="upper left", fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
