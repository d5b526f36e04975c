"""What is to be known about finished questions: how many of each kind, where their evidence lies, what splits share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations, pairwise

from rlm_core.papers.duplicates import near_duplicates as near_duplicate_papers
from rlm_core.papers.records import Paper
from rlm_core.records import Query
from rlm_core.synthesis.checks import similar, topic_stems
from rlm_core.synthesis.query_report import shingles
from rlm_core.synthesis.splits import SPLITS, Split

LENGTHS = (150, 300, 450, 600, 750, 900)
"""Characters; bounds of the length classes of a question's passages."""
FIFTHS = 5

Splits = Mapping[Split, Sequence[Query]]


@dataclass(frozen=True, slots=True)
class Leak:
    """Two things that are nearly the same, one in each of two splits."""

    kind: str
    """paper, near-duplicate paper, question or evidence."""
    splits: tuple[Split, Split]
    first: str
    """Id of the paper or query."""
    second: str
    share: float = 1.0
    """How much of the smaller one the other holds, where that is measured."""


def counts(splits: Splits) -> list[dict[str, object]]:
    """A row for each split, kind and tier: questions, papers, passages a question, and characters of evidence (quartiles)."""
    rows: list[dict[str, object]] = []
    for split in SPLITS:
        for kind, tier in sorted({(q.kind, q.tier) for q in splits[split]}):
            mine = [q for q in splits[split] if (q.kind, q.tier) == (kind, tier)]
            chars = sorted(sum(map(len, q.gold)) for q in mine)
            rows.append(
                {
                    "split": split,
                    "kind": kind,
                    "tier": tier,
                    "questions": len(mine),
                    "papers": len({e.paper_id for q in mine for e in q.evidence}),
                    "passages": sum(len(q.evidence) for q in mine) / len(mine),
                    "evidence_chars": [chars[(len(chars) - 1) * n // 4] for n in range(5)],
                }
            )
    return rows


def lengths(queries: Iterable[Query]) -> dict[str, int]:
    """Evidence passages by their length in characters."""
    classes = [f"under {LENGTHS[0]}", *(f"{a} to {b}" for a, b in pairwise(LENGTHS))]
    classes.append(f"{LENGTHS[-1]} and more")
    found: Counter[str] = Counter()
    for query in queries:
        for text in query.gold:
            found[classes[sum(len(text) >= bound for bound in LENGTHS)]] += 1
    return {name: found[name] for name in classes}


def positions(queries: Iterable[Query], parsed: Mapping[str, Paper]) -> dict[str, int]:
    """Evidence passages by the fifth of their paper's parsed text in which they begin."""
    found = [0] * FIFTHS
    for query in queries:
        for evidence in query.evidence:
            if evidence.span and evidence.paper_id in parsed:
                length = max(1, len(parsed[evidence.paper_id].text))
                found[min(FIFTHS - 1, evidence.span.start * FIFTHS // length)] += 1
    return {f"{100 * n // FIFTHS} to {100 * (n + 1) // FIFTHS} %": count for n, count in enumerate(found)}


def leaks(splits: Splits, library: Mapping[str, Paper]) -> list[Leak]:
    """What two splits share: papers, papers that are nearly the same text, questions that reword each other, and evidence
    of which half or more also stands in the other's. An empty list is what one wants.

    `library`: the clean text of the papers; without it near-duplicate papers are not looked for.
    """
    found: list[Leak] = []
    home: dict[str, Split] = {}
    for split in SPLITS:
        for paper_id in sorted({p for q in splits[split] for p in q.paper_ids}):
            if paper_id in home:
                found.append(Leak("paper", (home[paper_id], split), paper_id, paper_id))
            home.setdefault(paper_id, split)
    for first, second, share in near_duplicate_papers([library[p] for p in home if p in library]):
        if home[first] != home[second]:
            found.append(Leak("near-duplicate paper", (home[first], home[second]), first, second, share))
    for one, other in combinations(SPLITS, 2):
        found += _alike(one, other, splits)
    return found


def _alike(one: Split, other: Split, splits: Splits) -> list[Leak]:
    found: list[Leak] = []
    topics = [(q.id, topic_stems(q.question)) for q in splits[other]]
    held: dict[int, str] = {h: q.id for q in splits[other] for e in q.evidence for h in shingles(e.text)}
    for query in splits[one]:
        mine = topic_stems(query.question)
        found += [Leak("question", (one, other), query.id, name) for name, topic in topics if similar(mine, topic)]
        for evidence in query.evidence:
            parts = shingles(evidence.text)
            shared = [held[h] for h in parts if h in held]
            if 2 * len(shared) >= len(parts) > 0:
                name = Counter(shared).most_common(1)[0][0]
                found.append(Leak("evidence", (one, other), query.id, name, len(shared) / len(parts)))
    return found


def report_of(
    splits: Splits, parsed: Mapping[str, Paper], clean: Mapping[str, Paper], rejected: Mapping[str, int]
) -> dict[str, object]:
    """All of it, as `rlm-forge queries report --json FILE` writes it."""
    every = [q for split in SPLITS for q in splits[split]]
    return {
        "total": len(every),
        "counts": counts(splits),
        "evidence_lengths": lengths(every),
        "evidence_positions": positions(every, parsed),
        "leaks": [asdict(leak) for leak in leaks(splits, clean or parsed)],
        "rejected": dict(sorted(rejected.items(), key=lambda row: -row[1])),
    }
