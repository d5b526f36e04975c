"""BrowseComp-Plus: hard questions whose answer stands in a few of many web documents.

Chen et al. 2025 (github.com/texttron/BrowseComp-Plus). A file of the user's: the decrypted .jsonl that the published
`decrypt_dataset.py` writes::

    {"query_id", "query", "answer", "gold_docs": [{"docid", "text", "url"}], "evidence_docs": [...], "negative_docs": [...]}

A context holds the query's own documents and, while they fit in `size`, other documents of the file in the order in which
BM25 ranks them for the question: the nearest distractors come first. The published score is a model's verdict; here it is
whether the answer holds the reference answer, word for word without case, marks and articles, which misses other wordings.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from rlm_core.evaluation.benchmarks.files import Row, read_rows
from rlm_core.evaluation.benchmarks.item import BenchmarkItem, as_passages, count_tokens

SOURCE = "the decrypted .jsonl of huggingface.co/datasets/Tevatron/browsecomp-plus"
NEEDS = ("query_id", "query", "answer", "gold_docs", "evidence_docs")
LISTS = ("gold_docs", "evidence_docs", "negative_docs")
LONGEST_ANSWER = 8
"""An answer of more than so many times the reference's words (and 40) is a report, not an answer, and scores 0."""


def load(path: Path | None, size: int, seed: int) -> list[BenchmarkItem]:
    """One item a query; its own gold and evidence documents are never left out. `seed` orders documents in a context."""
    rows = read_rows(path, benchmark="browsecomp-plus", needs=NEEDS, source=SOURCE)
    documents = {str(doc["docid"]): doc for row in rows for key in LISTS for doc in row.get(key) or ()}
    ranking = Ranking(documents)
    items = []
    for row in rows:
        own = [str(doc["docid"]) for key in LISTS[:2] for doc in row[key]]
        chosen = choose(own, ranking.order(row["query"]), documents, size)
        Random(f"browsecomp-plus {seed} {row['query_id']}").shuffle(chosen)
        context = {
            i: {"title": str(documents[i].get("url", "")), "abstract": "", "text": documents[i]["text"]} for i in chosen
        }
        items.append(
            BenchmarkItem(
                id=f"browsecomp-plus-{row['query_id']}",
                question=row["query"],
                context=context,
                gold=row["answer"],
                scorer=functools.partial(score, str(row["answer"])),
                metadata={
                    "gold_docs": [str(doc["docid"]) for doc in row["gold_docs"]],
                    "documents": len(chosen),
                    "tokens": sum(count_tokens(documents[i]["text"]) for i in chosen),
                },
            )
        )
    return items


class Ranking:
    """BM25 over all documents of the file."""

    def __init__(self, documents: Mapping[str, Row]) -> None:
        import bm25s

        self._ids = list(documents)
        self._bm25 = bm25s.BM25(method="lucene")
        self._bm25.index(self._tokens([documents[i]["text"] for i in self._ids]), show_progress=False)

    def _tokens(self, texts: Sequence[str]) -> list[list[str]]:
        import bm25s

        return list(bm25s.tokenize(list(texts), stopwords="en", return_ids=False, show_progress=False))

    def order(self, question: str) -> list[str]:
        """Ids, best first; ties in the order of the file."""
        scores = self._bm25.get_scores(self._tokens([question])[0])
        return [self._ids[i] for i in sorted(range(len(self._ids)), key=lambda i: (-scores[i], i))]


def choose(own: Sequence[str], ranked: Sequence[str], documents: Mapping[str, Row], size: int) -> list[str]:
    """The query's own documents, then the best ranked others that fit in what is left of `size` tokens."""
    chosen = list(dict.fromkeys(own))
    left = size - sum(count_tokens(documents[i]["text"]) for i in chosen)
    for doc_id in ranked:
        if left <= 0:
            break
        tokens = count_tokens(documents[doc_id]["text"])
        if doc_id not in chosen and tokens <= left:
            chosen.append(doc_id)
            left -= tokens
    return chosen


def score(gold: str, answer: Any) -> float:
    said, wanted = _words("\n".join(as_passages(answer))), _words(gold)
    if not wanted or len(said) > max(40, LONGEST_ANSWER * len(wanted)):
        return 0.0
    return float(any(said[i : i + len(wanted)] == wanted for i in range(len(said) - len(wanted) + 1)))


def _words(text: str) -> list[str]:
    return [word for word in re.findall(r"\w+", text.lower()) if word not in ("a", "an", "the")]
