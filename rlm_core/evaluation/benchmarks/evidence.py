"""The project's own test split: questions over groups of papers, gold from clean text, context from noisy text."""

from __future__ import annotations

import functools
from pathlib import Path

from rlm_core.evaluation.benchmarks.evidence_inference import score_passages
from rlm_core.evaluation.benchmarks.item import BenchmarkItem, count_tokens
from rlm_core.files import read_jsonl
from rlm_core.records import Query


def load(path: Path | None, size: int, seed: int) -> list[BenchmarkItem]:
    """One item a test query; `path` is the project folder, by default the current one.

    Contexts are taken whole whatever `size` says, and nothing is drawn by `seed`.
    """
    from rlm_core.papers import attach_context, load_library

    root = path or Path()
    queries, parsed = root / "data/queries/test.jsonl", root / "data/parsed"
    for needed, stage in ((queries, "queries"), (parsed, "parse")):
        if not needed.exists():
            raise ValueError(f"benchmark evidence: {needed} is missing; make it with: dvc repro {stage}")
    library = load_library(parsed)
    tokens = {paper_id: count_tokens(paper.text) for paper_id, paper in library.items()}
    items = []
    for row in read_jsonl(queries):
        query = attach_context(Query.from_dict(row), library)
        assert query.context is not None
        items.append(
            BenchmarkItem(
                id=query.id,
                question=query.question,
                context=query.context,
                gold=query.gold,
                scorer=functools.partial(score_passages, (query.gold,)),
                metadata={
                    "tier": query.tier,
                    "kind": query.kind,
                    "group_id": query.group_id,
                    "tokens": sum(tokens[paper_id] for paper_id in query.paper_ids),
                },
            )
        )
    return items
