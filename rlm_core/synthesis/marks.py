"""What readers think of questions: good or bad, with a word if they like; kept a line each, the last mark counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from rlm_core.files import append_jsonl, read_jsonl
from rlm_core.records import Query

Verdict = Literal["good", "bad"]
MAX_WORD = 300
"""Characters of a reader's remark."""
Z95 = 1.959963984540054


@dataclass(frozen=True, slots=True)
class Mark:
    """`question` is kept beside the id so that the file can be read by itself."""

    query_id: str
    verdict: Verdict
    word: str = ""
    question: str = ""


def read_marks(path: Path) -> dict[str, Mark]:
    """The last mark of each query; empty when there is no file. Raises `ValueError` naming file and line."""
    marks: dict[str, Mark] = {}
    for number, row in enumerate(read_jsonl(path, allow_cut_tail=True), 1) if path.exists() else ():
        if row.get("verdict") not in ("good", "bad") or not isinstance(row.get("query_id"), str):
            raise ValueError(f"{path}: mark {number}: needs 'query_id' and 'verdict' (good or bad), got {row}")
        marks[row["query_id"]] = Mark(row["query_id"], row["verdict"], row.get("word", ""), row.get("question", ""))
    return marks


def add_mark(path: Path, mark: Mark) -> None:
    append_jsonl(path, asdict(mark))


def bad_ids(path: Path) -> frozenset[str]:
    """The queries whose last mark is bad."""
    return frozenset(mark.query_id for mark in read_marks(path).values() if mark.verdict == "bad")


def wilson(good: int, total: int) -> tuple[float, float]:
    """The 95 % Wilson score interval of a share (Wilson, 1927); (0, 1) without any mark.

    >>> [round(x, 3) for x in wilson(8, 10)]
    [0.49, 0.943]
    """
    if total == 0:
        return 0.0, 1.0
    share, z2 = good / total, Z95**2
    centre = (share + z2 / (2 * total)) / (1 + z2 / total)
    half = Z95 / (1 + z2 / total) * (share * (1 - share) / total + z2 / (4 * total**2)) ** 0.5
    return max(0.0, centre - half), min(1.0, centre + half)


def summary(marks: Iterable[Mark], queries: Iterable[Query]) -> list[dict[str, Any]]:
    """Marked, good, share and its interval: of all, then by kind and tier. Marks of queries no longer there do not count."""
    known = {q.id: q for q in queries}
    rows: dict[str, list[bool]] = defaultdict(list)
    rows["all"] = []
    for mark in marks:
        if query := known.get(mark.query_id):
            good = mark.verdict == "good"
            rows["all"].append(good)
            rows[f"{query.kind}, tier {query.tier}"].append(good)
    return [
        {
            "questions": name,
            "marked": len(row),
            "good": sum(row),
            "share_good": sum(row) / len(row) if row else None,
            "ci95": list(wilson(sum(row), len(row))),
        }
        for name, row in sorted(rows.items())
    ]
