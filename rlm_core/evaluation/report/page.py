"""What the page says, gathered into plain data, and the page itself. All text from models and papers is escaped."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rlm_core.evaluation import arm_plots, plots
from rlm_core.evaluation.report.curves import FIRST, curves, guard_note, unsound_guard
from rlm_core.evaluation.report.parts import facts, scripted_parts
from rlm_core.evaluation.report.template import PAGE
from rlm_core.evaluation.report.trees import queries_view
from rlm_core.evaluation.table import count, number, p_value, percent
from rlm_core.params import Params

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class ReportData:
    """The files that the report reads, as parsed; None for one that there is not."""

    evaluation: Mapping[str, Any]
    params: Params
    rollouts: Sequence[Mapping[str, Any]] = ()
    training: Any = None
    sft: Any = None
    counts: Mapping[str, Any] = field(default_factory=dict)
    """Other reports by name: papers, ocr, queries, distill."""
    made: Mapping[str, str] = field(default_factory=dict)
    """Commit, date and the like, for the foot of the page."""


def render_report(data: ReportData) -> str:
    """The whole page. Equal data give equal text."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"number": number, "percent": percent, "count": count}
    template = environment.from_string(PAGE)
    return template.render(**view(data))


def view(data: ReportData) -> dict[str, Any]:
    """All that the template shows. Values are text and numbers; only `svg` values are markup, and made here."""
    evaluation, arms = data.evaluation, data.evaluation["arms"]
    notes = [str(note) for note in evaluation.get("notes", [])]
    main = next((name for name in TRAINED if name in arms), None)
    guard, apart = guard_note(data.training)
    queries = queries_view(data.rollouts, data.params.report.rollouts_shown)
    known = [(title, show) for title, show in HEADLINE if any(show(arm) != "-" for arm in arms.values())]
    return {
        "judge": evaluation["judge"],
        "n": evaluation["n"],
        "clusters": evaluation.get("clusters"),
        "loud": [*(note for note in notes if is_loud(note)), *unsound_guard(data.training)],
        "notes": [note for note in notes if not is_loud(note)],
        "cards": cards(evaluation),
        "scripted": scripted_parts(data.params, evaluation),
        "judge_check": facts(evaluation.get("judge_check")),
        "headers": [title for title, _ in known],
        "rows": [headline_view(name, arm, known, main=name == main) for name, arm in arms.items()],
        "detail_headers": [title for title, _ in DETAILS],
        "details": [(name, [show(arm) for _, show in DETAILS]) for name, arm in arms.items()],
        "comparisons": [comparison_view(row) for row in evaluation.get("comparisons", ())],
        "plots": evaluation_plots(arms),
        "training": curves(data.training, "grpo"),
        "guard": {"text": guard, "apart": apart},
        "sft": curves(data.sft, "sft"),
        "first": FIRST,
        "failures": failures_view(arms),
        "failure_plots": [figure_view("Share of samples by cause", arm_plots.failures_figure(arms))],
        "turn_errors": {name: arm["turn_errors"] for name, arm in arms.items() if arm.get("turn_errors")},
        "counts": [(name, facts(rows)) for name, rows in data.counts.items() if rows],
        "queries": queries,
        "shown": {query["query_id"] for query in queries},
        "provenance": facts(evaluation.get("provenance", {}), most=120),
        "made": dict(data.made),
        "commands": COMMANDS,
    }


TRAINED = ("grpo", "sft", "base")
"""Most to least trained."""

Show = Callable[[Mapping[str, Any]], str]


def _passed(arm: Mapping[str, Any]) -> str:
    k = arm.get("k", 1)
    text = number(arm.get("pass_at_k"))
    return text if k == 1 or text == "-" else f"{text} (k={k})"


HEADLINE: tuple[tuple[str, Show], ...] = (
    ("F1", lambda arm: number(arm.get("f1_mean"))),
    ("F1 by paper", lambda arm: number(arm.get("macro_f1_mean"))),
    ("papers", lambda arm: number(arm.get("paper_f1_mean"))),
    ("format", lambda arm: percent(arm.get("format_success"))),
    ("pass@k", _passed),
    ("turns", lambda arm: number(arm.get("turns_mean"), 1)),
    ("children", lambda arm: number(arm.get("children_mean"), 1)),
    ("tokens", lambda arm: count(arm.get("tokens_mean"))),
    ("cost", lambda arm: number(arm.get("cost_mean"), 5)),
    ("seconds", lambda arm: number(arm.get("seconds_mean"), 1)),
    ("n", lambda arm: str(arm.get("n", "-"))),
)
DETAILS: tuple[tuple[str, Show], ...] = (
    ("judge precision (1-10)", lambda arm: number(arm.get("judge_precision_mean"), 2)),
    ("judge recall (1-10)", lambda arm: number(arm.get("judge_recall_mean"), 2)),
    ("evidence precision", lambda arm: number(arm.get("evidence_precision_mean"))),
    ("evidence recall", lambda arm: number(arm.get("evidence_recall_mean"))),
    ("precision by paper", lambda arm: number(arm.get("macro_precision_mean"))),
    ("recall by paper", lambda arm: number(arm.get("macro_recall_mean"))),
    ("papers precision", lambda arm: number(arm.get("paper_precision_mean"))),
    ("papers recall", lambda arm: number(arm.get("paper_recall_mean"))),
    ("pass@1", lambda arm: number(arm.get("pass_at_1"))),
    ("tokens read", lambda arm: count(arm.get("prompt_tokens_mean"))),
    ("tokens written", lambda arm: count(arm.get("completion_tokens_mean"))),
    ("tokens, 95th percentile", lambda arm: count(arm.get("tokens_p95"))),
    ("seconds, 95th percentile", lambda arm: number(arm.get("seconds_p95"), 1)),
    ("temperature", lambda arm: number(arm.get("temperature"), 1)),
    ("unscored", lambda arm: f"{arm.get('unscored', 0)} of {arm.get('samples', 0)}"),
)


def is_loud(note: str) -> bool:
    """Notes that shout in their first word stand above everything else."""
    first = note.split(" ", 1)[0]
    return len(first) > 1 and first.isupper()


def cards(evaluation: Mapping[str, Any]) -> list[dict[str, str]]:
    """The run in a glance: each trained model's judge mean, the best other arm, and what a question costs."""
    arms = {name: arm for name, arm in evaluation["arms"].items() if arm.get("judge_mean") is not None}
    shown = []
    what = {"base": "before training", "sft": "after distillation", "grpo": "after reinforcement learning"}
    for name in reversed(TRAINED):
        if name in arms:
            shown.append({"value": number(arms[name]["judge_mean"]), "text": f"{name}: judge, {what[name]}"})
    others = [name for name in arms if not name.startswith(TRAINED)]
    if others:
        best = max(others, key=lambda name: arms[name]["judge_mean"])
        shown.append({"value": number(arms[best]["judge_mean"]), "text": f"{best}: best other arm"})
    if main := next((name for name in TRAINED if name in arms), None):
        tokens = count(arms[main].get("tokens_mean"))
        shown.append({"value": tokens, "text": f"tokens a question, {main}"})
        shown.append({"value": percent(arms[main].get("format_success")), "text": f"answered in form, {main}"})
    return shown


def headline_view(
    name: str, arm: Mapping[str, Any], columns: Sequence[tuple[str, Show]], *, main: bool
) -> dict[str, Any]:
    """One arm of the headline table; the bar's places are percent of the judge's range 0 to 1."""
    quality, interval = arm.get("judge_mean"), arm.get("judge_ci95")
    bar = None
    if quality is not None:
        low, high = interval or (quality, quality)
        bar = {"low": f"{100 * low:.2f}", "width": f"{100 * (high - low):.2f}", "mean": f"{100 * quality:.2f}"}
    return {
        "name": name,
        "main": main,
        "judge": number(quality),
        "interval": f"{number(interval[0])} .. {number(interval[1])}" if interval else "-",
        "bar": bar,
        "cells": [show(arm) for _, show in columns],
        "model": str(arm.get("model", "-")),
    }


COMMANDS = (
    ("make run", "run the pipeline and print the table"),
    ("dvc repro", "make again what changed, and only that"),
    ("dvc metrics diff", "compare the figures with the last commit's"),
    ("make ui", "MLflow and Prefect, with the traces of these rollouts"),
    ('rlm-forge ask "question" --papers DIR --model models/grpo', "one run over PDFs of yours, shown live"),
)


def evaluation_plots(arms: Mapping[str, Mapping[str, Any]]) -> list[dict[str, str]]:
    figures = [("Quality against tokens", arm_plots.cost_figure(arms))]
    if any(arm.get("cost_mean") for arm in arms.values()):
        figures.append(("Quality against cost", arm_plots.cost_figure(arms, by="cost_mean")))
    if lines := temperature_lines(arms):
        figures.append(("Sharpening or learning: quality by temperature", arm_plots.temperature_figure(lines)))
    if any(len(arm.get("pass_at", ())) > 1 for arm in arms.values()):
        figures.append(("Pass@k by k", arm_plots.pass_figure(arms)))
    if any(arm.get("by_tier") for arm in arms.values()):
        figures.append(("By tier: papers that hold the evidence", arm_plots.tiers_figure(arms)))
    if any(len(arm.get("by_kind", ())) > 1 for arm in arms.values()):
        figures.append(("By kind of question", arm_plots.tiers_figure(arms, "kind")))
    if any(arm.get("prompt_tokens_mean") for arm in arms.values()):
        figures.append(("Tokens read and written", arm_plots.tokens_figure(arms)))
    return [figure_view(title, figure) for title, figure in figures]


def figure_view(title: str, figure: Figure) -> dict[str, str]:
    return {"title": title, "svg": plots.to_svg(figure, title)}


def temperature_lines(
    arms: Mapping[str, Mapping[str, Any]],
) -> dict[str, list[tuple[float, Mapping[str, Any]]]]:
    """For each trained model that was sampled at several temperatures: its arms by temperature, all else being equal."""
    lines = {}
    for model in reversed(TRAINED):
        own = arms.get(model, {})
        points = {
            float(arm["temperature"]): arm
            for arm in arms.values()
            if arm.get("temperature") is not None
            and arm.get("judge_mean") is not None
            and all(arm.get(key) == own.get(key) for key in ("harness", "actor", "recursion", "strategy"))
        }
        if len(points) > 1:
            lines[model] = sorted(points.items(), key=lambda point: point[0])
    return lines


def comparison_view(row: Mapping[str, Any]) -> dict[str, str]:
    low, high = row["ci95"]
    return {
        "pair": f"{row['a']} - {row['b']}",
        "family": str(row.get("family", "")),
        "metric": str(row["metric"]),
        "difference": f"{row['difference']:+.3f}",
        "interval": f"{low:+.3f} .. {high:+.3f}",
        "p": p_value(row["p_holm"]),
        "effect": number(row.get("effect_size"), 2),
        "counts": f"{row['wins']} / {row['ties']} / {row['losses']}",
        "significant": "yes" if row["p_holm"] <= 0.05 else "no",
    }


def failures_view(arms: Mapping[str, Mapping[str, Any]]) -> list[dict[str, str]]:
    return [
        {
            "arm": name,
            "cause": cause.replace("_", " "),
            "count": f"{row['count']} of {arm.get('samples', arm['n'])}",
            "example": str(row["example"]),
            "query_id": str(row.get("query_id", "")),
            "detail": str(row.get("detail", "")),
        }
        for name, arm in arms.items()
        for cause, row in arm.get("failures", {}).items()
    ]
