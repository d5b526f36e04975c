"""The retrieval baseline: BM25 over passages of the papers' noisy text, a fixed number of passages for every question.

Passage length and number are chosen by evidence F1 on validation queries, never on those that are scored.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rlm_core.records import Context, Query, Rollout, Usage
from rlm_core.rewards import evidence_f1

PASSAGE_CHARS = (300, 600, 1200)
TOP_K = (1, 2, 3, 5, 8, 12)


@dataclass(frozen=True, slots=True)
class Bm25Choice:
    """The setting that did best on validation queries."""

    passage_chars: int
    k: int
    f1: float
    """Mean evidence F1 on validation."""
    num_queries: int


def split_passages(text: str, chars: int) -> list[str]:
    """Passages of about `chars`, cut where sentences or lines end; every character that is not white space is in one."""
    passages: list[str] = []
    current = ""
    for piece in _pieces(text, chars):
        if current and len(current) + len(piece) > chars:
            passages.append(current.strip())
            current = ""
        current += piece
    passages.append(current.strip())
    return [passage for passage in passages if passage]


def _pieces(text: str, chars: int) -> list[str]:
    """Sentences and lines, with what separates them; longer ones cut at `chars`."""
    pieces = re.split(r"(?<=[.!?])(?=\s)|(?<=\n)", text)
    return [piece[start : start + chars] for piece in pieces for start in range(0, len(piece), chars)]


class PassageIndex:
    """The passages of one context, ranked by BM25."""

    def __init__(self, context: Context, chars: int) -> None:
        import bm25s

        logging.getLogger("bm25s").setLevel(logging.WARNING)  # it logs each index otherwise
        texts = [context] if isinstance(context, str) else [str(paper["text"]) for paper in context.values()]
        self.passages = [passage for text in texts for passage in split_passages(text, chars)]
        self._bm25 = bm25s.BM25(method="lucene")
        if self.passages:
            self._bm25.index(_tokens(self.passages), show_progress=False)

    def top(self, question: str, k: int) -> list[str]:
        """The k best passages, best first; fewer where there are fewer. Ties go to the earlier passage."""
        if not self.passages:
            return []
        scores = self._bm25.get_scores(_tokens([question])[0])
        order = sorted(range(len(self.passages)), key=lambda i: (-scores[i], i))
        return [self.passages[i] for i in order[:k]]


def _tokens(texts: Sequence[str]) -> list[list[str]]:
    import bm25s

    return list(bm25s.tokenize(list(texts), stopwords="en", return_ids=False, show_progress=False))


class Retriever:
    """Answers queries; keeps the index of each group of papers that it has met."""

    def __init__(self) -> None:
        self._index = lru_cache(maxsize=64)(self._build)
        self._contexts: dict[tuple[str, ...], Context] = {}

    def index(self, query: Query, chars: int) -> PassageIndex:
        """The index of the query's papers in passages of about `chars`."""
        assert query.context is not None, f"query {query.id} has no context; attach_context first"
        if isinstance(query.context, str):
            return PassageIndex(query.context, chars)
        papers = tuple(query.context)
        self._contexts[papers] = query.context
        return self._index(papers, chars)

    def passages(self, query: Query, chars: int, k: int) -> list[str]:
        return self.index(query, chars).top(query.question, k)

    def _build(self, papers: tuple[str, ...], chars: int) -> PassageIndex:
        return PassageIndex(self._contexts[papers], chars)

    def answer(self, query: Query, sample: int, choice: Bm25Choice) -> Rollout:
        """The passages as an answer; a tree without turns and tokens."""
        start = time.monotonic()
        passages = self.passages(query, choice.passage_chars, choice.k)
        return Rollout(
            id=f"{query.id}.{sample}",
            query_id=query.id,
            question=query.question,
            answer=passages,
            usage=Usage(wall_seconds=time.monotonic() - start),
            policy="bm25",
            provenance={"sample": sample, "k": choice.k, "passage_chars": choice.passage_chars},
        )

    def choose(self, validation: Sequence[Query]) -> Bm25Choice:
        """The passage length and k with the best mean evidence F1; the smaller k, then the shorter passage, on ties.

        Raises `ValueError` without validation queries: there is nothing fair to choose by.
        """
        if not validation:
            raise ValueError("no validation queries to choose BM25's k by; k must not be chosen on the test")
        best: Bm25Choice | None = None
        for k in TOP_K:
            for chars in PASSAGE_CHARS:
                f1s = [evidence_f1(self.passages(query, chars, k), query.gold).f1 for query in validation]
                mean = sum(f1s) / len(f1s)
                if best is None or mean > best.f1 + 1e-12:
                    best = Bm25Choice(chars, k, mean, len(validation))
        assert best is not None
        return best


def provenance(choice: Bm25Choice) -> Mapping[str, Any]:
    """The choice as rows of the evaluation file."""
    return {
        "k": choice.k,
        "passage_chars": choice.passage_chars,
        "validation_f1": choice.f1,
        "validation_queries": choice.num_queries,
        "tried": {"k": list(TOP_K), "passage_chars": list(PASSAGE_CHARS)},
    }
