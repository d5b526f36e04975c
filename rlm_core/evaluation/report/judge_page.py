"""The page of a judge's check: whether it may be used, how its scores lie beside the deserved ones, and what it mistook."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlm_core.evaluation import plots
from rlm_core.evaluation.report.style import STYLE
from rlm_core.evaluation.table import count, number, percent
from rlm_core.rewards.reliability.plot import draw_calibration
from rlm_core.rewards.reliability.tables import SCALE

CRITERIA = ("precision", "recall")


def render_judge_page(report: Mapping[str, Any]) -> str:
    """The report of `check_judge` as one file without any outside resource; equal reports give equal text."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"number": number, "count": count}
    return environment.from_string(PAGE).render(
        report=report,
        measures=measures(report),
        figures=[calibration_view(report, name) for name in CRITERIA],
        confusion={name: confusion_rows(report, name) for name in CRITERIA},
        scale=SCALE,
    )


def measures(report: Mapping[str, Any]) -> list[tuple[str, str, str, bool]]:
    """(what, found, limit, whether it is kept) of everything that decides."""
    limits, agreement, length = report["limits"], report["agreement"], report["length"]
    rows: list[tuple[str, float | None, float, bool, bool]] = [
        (f"{name}: weighted kappa with the labels", agreement[name]["kappa"], limits["min_kappa"], True, False)
        for name in CRITERIA
    ]
    rows += [
        ("answers without a verdict", report["failures"]["share"], limits["max_failed"], False, True),
        (
            "verdicts that cross 0.5 when asked again",
            report["flips"]["pass_share"],
            limits["max_pass_flips"],
            False,
            True,
        ),
        ("worthless answers talked to 0.5 or more", report["injection"]["share"], limits["max_gave_in"], False, True),
        ("change of the reward by order", report["order"]["mean_change"], limits["max_order_change"], False, False),
        ("points of recall lost to padding", length["recall_lost_to_padding"], limits["max_recall_lost"], False, False),
    ]
    shown = []
    for what, found, limit, least, share in rows:
        text = percent if share else lambda value: number(value, 2)
        kept = not least if found is None else (found >= limit if least else found <= limit)
        shown.append((what, text(found), f"{'at least' if least else 'at most'} {text(limit)}", kept))
    return shown


def calibration_view(report: Mapping[str, Any], name: str) -> dict[str, str]:
    figure, axes = plots.new_figure(5.0, 3.6)
    draw_calibration(axes, [row for row in report["calibration"] if row["criterion"] == name], ink=plots.INK)
    plots.label(axes, x="score the answer deserves", y="score the judge gave")
    plots.legend(figure)
    return {"title": f"Calibration of {name}", "svg": plots.to_svg(figure, f"Calibration of {name}")}


def confusion_rows(report: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """A row for each kind of case: the deserved scores, and how often each score of the scale was given.

    A cell's `level` is its share of the row in tenths; `right`: some case of the kind deserves that score.
    """
    rows = []
    for kind in (row["kind"] for row in report["kinds"]):
        cells = [row for row in report["confusion"] if row["criterion"] == name and row["kind"] == kind]
        total = sum(row["n"] for row in cells)
        labels = sorted({row["label"] for row in cells if row["label"] is not None})
        given = [sum(row["n"] for row in cells if row["given"] == score) for score in SCALE]
        deserves = "-" if not labels else str(labels[0]) if len(labels) == 1 else f"{labels[0]} to {labels[-1]}"
        rows.append(
            {
                "kind": kind.replace("_", " "),
                "n": total,
                "deserves": deserves,
                "cells": [
                    {"n": n, "level": round(10 * n / total) if total else 0, "right": score in labels}
                    for score, n in zip(SCALE, given, strict=True)
                ],
            }
        )
    return rows


PAGE = (
    """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<link rel="icon" href="data:,">
<title>Check of the judge {{ report.judge }}</title>
<style>"""
    + STYLE
    + """
.grid td, .grid th { text-align: center; padding: .3rem .45rem; } .grid td:first-child { text-align: left; }
.grid td.cell { background: rgb(47 126 216 / calc(var(--share) * 4%)); min-width: 2rem; }
.grid td.right { box-shadow: inset 0 0 0 2px var(--good); }
</style></head>
<body>
<h1>Check of the judge {{ report.judge }}</h1>
<p class="soft">{{ report.cases }} labelled answers made from {{ report.queries }} questions, each judged
{{ report.repeats }} times.</p>
{% if report.passed %}<p><span class="tag good">passed</span> This judge may be used.</p>
{% else %}<div class="warn"><p class="loud">Not to be used as it is.</p>
{% for fault in report.faults %}<p>{{ fault }}</p>{% endfor %}</div>{% endif %}

<h2>What decides</h2>
<div class="scroll"><table class="left"><thead><tr><th>measure</th><th>found</th><th>limit</th><th></th></tr></thead><tbody>
{% for what, found, limit, kept in measures %}<tr><td>{{ what }}</td><td>{{ found }}</td><td>{{ limit }}</td>
<td class="{{ 'good' if kept else 'bad' }}">{{ 'kept' if kept else 'missed' }}</td></tr>
{% endfor %}</tbody></table></div>

<h2>Calibration</h2>
<p class="soft small">Means over all answers that deserve a score, with the lowest and highest score that they got; the numbers
count the answers.</p>
<div class="plots">{% for plot in figures %}
<figure><figcaption>{{ plot.title }}</figcaption>{{ plot.svg|safe }}</figure>{% endfor %}
</div>

<h2>Confusion by case</h2>
<p class="soft small">How often each score was given to each kind of answer, at the first asking. Framed: the scores that
answers of that kind deserve.</p>
{% for name, rows in confusion.items() %}<h3>{{ name }}</h3>
<div class="scroll"><table class="grid stick"><thead><tr><th>answer</th><th>judged</th><th>deserves</th>
{% for score in scale %}<th>{{ score }}</th>{% endfor %}</tr></thead><tbody>
{% for row in rows %}<tr><td>{{ row.kind }}</td><td>{{ row.n }}</td><td>{{ row.deserves }}</td>
{% for cell in row.cells %}<td class="cell{{ ' right' if cell.right }}" style="--share:{{ cell.level }}">
{{- cell.n or '' }}</td>{% endfor %}</tr>
{% endfor %}</tbody></table></div>
{% endfor %}

<h2>Means by case</h2>
<div class="scroll"><table class="stick"><thead><tr><th>answer</th><th>answers</th><th>judged</th><th>precision</th>
<th>deserves</th><th>recall</th><th>deserves</th><th>reward</th></tr></thead><tbody>
{% for row in report.kinds %}<tr><td>{{ row.kind.replace('_', ' ') }}</td><td>{{ row.n }}</td><td>{{ row.judged }}</td>
<td>{{ row.precision|number(1) }}</td><td>{{ row.label_precision|number(1) }}</td><td>{{ row.recall|number(1) }}</td>
<td>{{ row.label_recall|number(1) }}</td><td>{{ row.reward|number(2) }}</td></tr>
{% endfor %}</tbody></table></div>
<footer>{{ report.cost.requests }} requests, {{ report.cost.retries }} of them tried again,
{{ report.cost.prompt_tokens|count }} + {{ report.cost.completion_tokens|count }} tokens. Cases of version
{{ report.version }}.</footer>
</body></html>
"""
)
