"""What the page says, gathered into plain data, and the page itself. All text from models and papers is escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rlm_core.evaluation import plots
from rlm_core.evaluation.report.curves import curves
from rlm_core.evaluation.report.template import PAGE
from rlm_core.evaluation.report.trees import queries_view
from rlm_core.evaluation.table import HEADERS, count, headline, number, p_value, percent
from rlm_core.params import Params


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
    arms = data.evaluation["arms"]
    return {
        "judge": data.evaluation["judge"],
        "n": data.evaluation["n"],
        "notes": data.evaluation.get("notes", []),
        "scripted": scripted_parts(data.params, data.evaluation),
        "headers": HEADERS,
        "rows": [headline(name, arm) for name, arm in arms.items()],
        "detail_headers": [title for title, _ in DETAILS],
        "details": [(name, [show(arm) for _, show in DETAILS]) for name, arm in arms.items()],
        "comparisons": [comparison_view(row) for row in data.evaluation.get("comparisons", ())],
        "plots": evaluation_plots(arms),
        "training": curves(data.training, "grpo"),
        "sft": curves(data.sft, "sft"),
        "failures": failures_view(arms),
        "turn_errors": {name: arm["turn_errors"] for name, arm in arms.items() if arm.get("turn_errors")},
        "counts": [(name, facts(rows)) for name, rows in data.counts.items() if rows],
        "queries": queries_view(data.rollouts, data.params.report.rollouts_shown),
        "provenance": facts(data.evaluation.get("provenance", {}), most=80),
        "made": dict(data.made),
        "commands": COMMANDS,
    }


DETAILS = (
    ("judge precision (1-10)", lambda arm: number(arm.get("judge_precision_mean"), 2)),
    ("judge recall (1-10)", lambda arm: number(arm.get("judge_recall_mean"), 2)),
    ("evidence precision", lambda arm: number(arm.get("evidence_precision_mean"))),
    ("evidence recall", lambda arm: number(arm.get("evidence_recall_mean"))),
    ("papers F1", lambda arm: number(arm.get("paper_f1_mean"))),
    ("turns", lambda arm: number(arm.get("turns_mean"), 2)),
    ("children", lambda arm: number(arm.get("children_mean"), 2)),
    ("tokens written", lambda arm: count(arm.get("completion_tokens_mean"))),
    ("unscored", lambda arm: f"{arm.get('unscored', 0)} of {arm.get('samples', 0)}"),
)

COMMANDS = (
    ("make run", "run the pipeline and print the table"),
    ("dvc repro", "make again what changed, and only that"),
    ("dvc metrics diff", "compare the figures with the last commit's"),
    ("make ui", "MLflow and Prefect, with the traces of these rollouts"),
    ('rlm-forge ask "question" --papers DIR --model models/grpo', "one run over PDFs of yours, shown live"),
)


def evaluation_plots(arms: Mapping[str, Mapping[str, Any]]) -> list[dict[str, str]]:
    figures = [("Judge by arm", plots.arms_figure(arms)), ("Quality against cost", plots.cost_figure(arms))]
    if any(arm.get("by_tier") for arm in arms.values()):
        figures.append(("By tier: papers that hold the evidence", plots.tiers_figure(arms)))
    return [{"title": title, "svg": plots.to_svg(figure, title)} for title, figure in figures]


def comparison_view(row: Mapping[str, Any]) -> dict[str, str]:
    low, high = row["ci95"]
    return {
        "pair": f"{row['a']} - {row['b']}",
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
        }
        for name, arm in arms.items()
        for cause, row in arm.get("failures", {}).items()
    ]


def scripted_parts(params: Params, evaluation: Mapping[str, Any]) -> list[tuple[str, str, bool]]:
    """(part, what it was, whether it was a stand-in for a model or for real data)."""
    writers = evaluation.get("provenance", {}).get("writers") or [params.queries.writer]
    parts = [
        (
            "Papers",
            "typeset by the project itself: synthetic text, not real research"
            if params.papers.source == "sample"
            else f"from {params.papers.source}",
            params.papers.source == "sample",
        ),
        ("Clean text", f"OCR by {params.ocr.engine} at {params.ocr.dpi} dpi", False),
        (
            "Questions",
            f"written by: {', '.join(writers)}"
            + (" (templates over the text, no model)" if params.queries.writer == "extractive" else ""),
            params.queries.writer == "extractive",
        ),
        (
            "Teacher",
            f"a scripted program with {params.teach.noise:.0%} noise, not a model"
            if params.teach.policy == "expert"
            else f"the model {params.teach.endpoint.model if params.teach.endpoint else 'of an endpoint'}",
            params.teach.policy == "expert",
        ),
        (
            "Judge",
            "lexical: compares letters with the gold passages, not a model"
            if evaluation["judge"] == "lexical"
            else f"{evaluation['judge']}, a model with a rubric",
            evaluation["judge"] == "lexical",
        ),
        (
            "Policy",
            "tiny-random: an untrained model that proves plumbing, nothing about quality"
            if params.model.name == "tiny-random"
            else params.model.name,
            params.model.name == "tiny-random",
        ),
    ]
    if "expert" in evaluation["arms"]:
        parts.append(("Arm expert", "the scripted program without noise, not a model", True))
    return parts


def facts(data: Any, *, most: int = 40, prefix: str = "") -> list[tuple[str, str]]:
    """The numbers and short texts of a record as (name, value), nested ones as `outer / inner`; long lists as their length."""
    rows: list[tuple[str, str]] = []
    if not isinstance(data, Mapping):
        return rows
    for key, value in data.items():
        name = f"{prefix}{key}".replace("_", " ")
        if isinstance(value, Mapping):
            rows += facts(value, most=most, prefix=f"{prefix}{key} / ")
        elif isinstance(value, list):
            short = all(isinstance(part, str | int | float) for part in value) and len(value) <= 8
            rows.append((name, ", ".join(map(str, value)) if short else f"{len(value)} rows"))
        elif isinstance(value, float):
            rows.append((name, f"{value:.4g}"))
        elif value is not None:
            rows.append((name, str(value)[:200]))
    return rows[:most]
