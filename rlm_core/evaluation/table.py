"""The result table as text, for terminals and logs."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

HEADERS = ("arm", "judge", "95 % interval", "F1", "by paper", "format", "pass@k", "tokens", "seconds", "n", "model")


def render_table(evaluation: Mapping[str, Any]) -> str:
    """`reports/evaluation.json` as a table with its comparisons and notes; figures that there are not show as `-`."""
    rows = [headline(name, arm) for name, arm in evaluation["arms"].items()]
    parts = [f"Judge: {evaluation['judge']}, test queries: {evaluation['n']}", _aligned([HEADERS, *rows])]
    if compared := [_comparison(row) for row in evaluation.get("comparisons", ()) if row["metric"] == "judge"]:
        parts.append("Paired differences by judge (95 % interval, p after Holm):\n" + "\n".join(compared))
    if notes := evaluation.get("notes"):
        parts.append("\n".join(textwrap.fill(f"Note: {note}", 110, subsequent_indent="  ") for note in notes))
    return "\n\n".join(parts)


def headline(name: str, arm: Mapping[str, Any]) -> tuple[str, ...]:
    """The cells of one arm, in the order of `HEADERS`."""
    interval = arm.get("judge_ci95")
    k = arm.get("k", 1)
    passed = number(arm.get("pass_at_k"))
    return (
        name,
        number(arm.get("judge_mean")),
        f"{number(interval[0])} .. {number(interval[1])}" if interval else "-",
        number(arm.get("f1_mean")),
        number(arm.get("macro_f1_mean")),
        percent(arm.get("format_success")),
        passed if k == 1 or passed == "-" else f"{passed} (k={k})",
        count(arm.get("tokens_mean")),
        number(arm.get("seconds_mean"), 1),
        str(arm.get("n", "-")),
        str(arm.get("model", "-")),
    )


def number(value: float | None, digits: int = 3) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.0f} %"


def count(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def p_value(value: float) -> str:
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


def _comparison(row: Mapping[str, Any]) -> str:
    low, high = row["ci95"]
    return (
        f"  {row['a']} - {row['b']}: {row['difference']:+.3f} ({low:+.3f} .. {high:+.3f}), {p_value(row['p_holm'])}, "
        f"better on {row['wins']}, worse on {row['losses']} of {row['n']}"
    )


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    """Columns of equal width: the first and the last to the left, figures to the right, a rule under the head."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    last = len(widths) - 1
    lines = [
        "  ".join(
            cell.ljust(w) if i in (0, last) else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    lines = [line.rstrip() for line in lines]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])
