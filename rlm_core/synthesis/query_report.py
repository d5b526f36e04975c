"""The questions of a library by split, and what is to be known about them: counts, rejections, alignment, leakage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rlm_core.records import Query
from rlm_core.synthesis.checks import similar, topic_stems
from rlm_core.synthesis.splits import SPLITS, Split
from rlm_core.synthesis.streams import Stream, gram_hashes

SHINGLE = 40
"""Letters; two texts that share this many in a row share more than a phrase."""


def _no_queries() -> dict[Split, list[Query]]:
    return {split: [] for split in SPLITS}


@dataclass
class QueryReport:
    queries: dict[Split, list[Query]] = field(default_factory=_no_queries)
    rejected: Counter[str] = field(default_factory=Counter)
    """Drafts dropped, by reason."""
    warnings: list[str] = field(default_factory=list)
    writer: dict[str, str] = field(default_factory=dict)
    usage: dict[str, float] = field(default_factory=dict)
    """Of an endpoint writer: requests, retries, tokens, and the cost where prices are known."""

    def add(self, split: Split, queries: Iterable[Query]) -> None:
        self.queries[split] += queries

    def warn(self, message: str) -> None:
        self.warnings.append(message)

    def to_dict(self) -> dict[str, Any]:
        """The figures, without the questions themselves."""
        every = [q for split in SPLITS for q in self.queries[split]]
        scores = sorted(e.span.score for q in every for e in q.evidence if e.span)
        pieces = [len(e.span.pieces) for q in every for e in q.evidence if e.span]
        lengths = sorted(len(e.text) for q in every for e in q.evidence)
        return {
            "writer": self.writer,
            "usage": self.usage,
            "total": len(every),
            "splits": {
                split: {
                    "queries": len(rows),
                    "papers": len(_papers(rows)),
                    "groups": len({q.group_id for q in rows}),
                    "kinds": dict(sorted(Counter(q.kind for q in rows).items())),
                    "tiers": dict(sorted(Counter(q.tier for q in rows).items())),
                }
                for split, rows in self.queries.items()
            },
            "alignment": {
                "evidence": len(scores),
                "score_mean": sum(scores) / len(scores) if scores else None,
                "score_min": scores[0] if scores else None,
                "score_p10": scores[len(scores) // 10] if scores else None,
                "share_in_pieces": sum(n > 1 for n in pieces) / len(pieces) if pieces else None,
            },
            "evidence_chars": {
                "min": lengths[0] if lengths else None,
                "median": lengths[len(lengths) // 2] if lengths else None,
                "max": lengths[-1] if lengths else None,
            },
            "rejected": dict(self.rejected.most_common()),
            "leakage": leakage(self),
            "warnings": self.warnings,
        }


def _papers(queries: Sequence[Query]) -> set[str]:
    return {p for q in queries for p in q.paper_ids}


def leakage(report: QueryReport) -> dict[str, int]:
    """What splits share, all of it 0 at best: papers, questions that reword another split's, evidence that repeats it."""
    papers = [_papers(report.queries[split]) for split in SPLITS]
    shared = sum(len(a & b) for i, a in enumerate(papers) for b in papers[i + 1 :])
    topics = [[topic_stems(q.question) for q in report.queries[split]] for split in SPLITS]
    reworded = sum(
        any(similar(mine, other) for later in topics[i + 1 :] for other in later)
        for i, rows in enumerate(topics)
        for mine in rows
    )
    return {"papers": shared, "questions": reworded, "evidence": len(_leaking(report))}


def drop_leaks(report: QueryReport) -> None:
    """Drop the training questions whose evidence stands, for the most part, in the evidence of validation or test."""
    leaking = {q.id for q in _leaking(report)}
    if leaking:
        report.rejected["evidence also in another split"] += len(leaking)
        for split in SPLITS:
            report.queries[split] = [q for q in report.queries[split] if q.id not in leaking]


def _leaking(report: QueryReport) -> list[Query]:
    """Queries of train that repeat evidence of val or test, and of val that repeat evidence of test."""
    held: set[int] = set()
    found: list[Query] = []
    for split in reversed(SPLITS):
        found_in = [(q, [shingles(e.text) for e in q.evidence]) for q in report.queries[split]]
        if held:
            found += [q for q, parts in found_in if any(2 * len(part & held) > len(part) > 0 for part in parts)]
        held |= {h for _, parts in found_in for part in parts for h in part}
    return found


def shingles(text: str) -> set[int]:
    return set(gram_hashes(Stream.of(text).codes, SHINGLE).tolist())
