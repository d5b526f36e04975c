"""`reports/ablation.json` as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; margin: 1rem 0 }
td, th { padding: .3rem .7rem; border-bottom: 1px solid #ddd; text-align: left }
td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap } .note { color: #666 }
"""


def render_page(record: Mapping[str, Any]) -> str:
    """Variants, differences, conclusions and limits."""
    head = (
        f"{record['model']}, {record['questions']} {record['kind']}-paper questions x {record['samples_per_query']} samples, "
        f"{record['sampled_tokens']:,} sampled tokens a cell, judge: {record['judge']}"
    )
    missing = ", ".join(f"{name} seed {seed}" for name, seed in record["missing"])
    parts = [
        "<h1>How children are credited</h1>",
        f"<p>{escape(head)}.</p>",
        f'<p class="note">Not finished: {escape(missing)}.</p>' if missing else "",
        _variants(record["variants"]),
        '<p class="note">Intervals: 95 %, seeds and questions resampled, crossed. The bars share one scale.</p>',
        "<h2>Differences</h2>",
        _comparisons(record["comparisons"]),
        "<h2>What can be concluded</h2>",
        _list(record["conclusions"]),
        "<h2>What cannot</h2>",
        _list(record["limits"]),
    ]
    title = "<title>Ablation</title>"
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8">{title}<style>{_STYLE}</style>{"".join(parts)}</html>\n'
    )


def _variants(rows: Mapping[str, Any]) -> str:
    top = max((row["reward"]["high"] for row in rows.values() if row["reward"]), default=1.0) or 1.0
    lines = [
        f"<tr><td><b>{escape(name)}</b><br>{escape(row['title'])}</td><td>{_bar(row['reward'], top)}</td>"
        f'<td class="n">{_interval(row["reward"])}</td><td class="n">{_interval(row["reward_greedy"])}</td>'
        f'<td class="n">{_interval(row["evidence_f1"])}</td><td class="n">{_numbers(row["reward_by_seed"])}</td>'
        f'<td class="n">{_numbers(row["sampled_tokens"], 0)}</td></tr>'
        for name, row in rows.items()
    ]
    names = ("variant", "", "judge reward", "greedy", "evidence F1", "by seed", "tokens sampled")
    return f"<table><tr>{''.join(f'<th>{name}</th>' for name in names)}</tr>{''.join(lines)}</table>"


def _comparisons(rows: list[Mapping[str, Any]]) -> str:
    lines = [
        f"<tr><td>{escape(row['a'])} - {escape(row['b'])}</td>"
        + "".join(
            f'<td class="n">{_interval(row[key], "+")}</td>' for key in ("reward", "reward_greedy", "evidence_f1")
        )
        + f'<td class="n">{len(row["seeds"])}</td></tr>'
        for row in rows
    ]
    names = ("difference", "judge reward", "greedy", "evidence F1", "seeds")
    return f"<table><tr>{''.join(f'<th>{name}</th>' for name in names)}</tr>{''.join(lines)}</table>"


def _bar(estimate: Mapping[str, float] | None, top: float) -> str:
    if estimate is None:
        return ""
    low, mean, high = (200 * estimate[key] / top for key in ("low", "mean", "high"))
    return (
        '<svg width="204" height="16" role="img">'
        f'<rect width="{mean:.1f}" y="3" height="10" fill="#9bbbd4"/>'
        f'<path d="M{low:.1f} 8H{high:.1f}" stroke="#1f3b57" stroke-width="2"/></svg>'
    )


def _interval(estimate: Mapping[str, float] | None, sign: str = "") -> str:
    if estimate is None:
        return "-"
    return f"{estimate['mean']:{sign}.3f} [{estimate['low']:{sign}.3f}, {estimate['high']:{sign}.3f}]"


def _numbers(values: list[float | None], digits: int = 3) -> str:
    return ", ".join("-" if value is None else f"{value:,.{digits}f}" for value in values)


def _list(items: list[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(item)}</li>' for item in items)}</ul>"
