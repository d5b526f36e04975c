"""Evidence precision, recall and F1 paper by paper: a passage counts for the paper whose parsed text it stands in.

The pooled `evidence_f1` is ruled by the papers with the most evidence; here every paper has the same say, so that an answer
which leaves a paper out, or takes one in that holds nothing, pays the same for a short one as for a long one.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from rlm_core.records import Query
from rlm_core.rewards import PRF, evidence_f1
from rlm_core.synthesis.streams import GramIndex, Stream

NOWHERE = ""
"""Stands for the paper of text that none of the query's papers holds."""
RUN = 16
"""Letters in a row by which a passage that was not copied whole is told."""
MOST = 0.5
"""Share of a passage's letters that must lie in such runs of a paper."""


def evidence_by_paper(query: Query, passages: Sequence[str]) -> dict[str, PRF]:
    """Each paper of gold and answer with its `evidence_f1`; a paper on one side only has zeros.

    Passages that stand in no paper count as one more paper, without evidence; a passage that is a paper's id is no text.
    Where the context is a single text, that is the one paper, under `NOWHERE`.
    """
    if not isinstance(query.context, Mapping):
        return {NOWHERE: evidence_f1(passages, query.gold)}
    gold: dict[str, list[str]] = defaultdict(list)
    for evidence in query.evidence:
        gold[evidence.paper_id].append(evidence.text)
    papers = {
        key: str(query.context[key]["text"]) for key in dict.fromkeys((*gold, *query.context)) if key in query.context
    }
    answer: dict[str, list[str]] = defaultdict(list)
    for passage in passages:
        if passage not in papers and (letters := Stream.of(passage)):
            answer[paper_of(letters, papers)].append(passage)
    return {key: evidence_f1(answer.get(key, []), gold.get(key, [])) for key in dict.fromkeys((*gold, *answer))}


def paper_of(passage: Stream, papers: Mapping[str, str]) -> str:
    """The first paper whose text holds the passage's letters whole, else the one that holds most of them; or `NOWHERE`."""
    for key, text in papers.items():
        if passage.letters in _stream(text).letters:
            return key
    held = {key: _letters_in(passage, text) for key, text in papers.items()}
    best = max(held, key=lambda key: held[key], default=NOWHERE)
    return best if held.get(best, 0) >= MOST * len(passage) else NOWHERE


def macro(scores: Mapping[str, PRF]) -> PRF:
    """The means over papers; all 1.0 for no paper at all, when nothing was asked and nothing given."""
    if not scores:
        return PRF(1.0, 1.0, 1.0)
    rows = scores.values()
    return PRF(fmean(s.precision for s in rows), fmean(s.recall for s in rows), fmean(s.f1 for s in rows))


def _letters_in(passage: Stream, text: str) -> int:
    """Letters of the passage that lie in runs of `RUN` which the text holds too."""
    found: NDArray[np.bool_] = np.zeros(len(passage), dtype=bool)
    for start, _, length in _index(text).common_runs(passage.codes, max_places=200):
        found[start : start + length] = True
    return int(found.sum())


@functools.lru_cache(maxsize=64)
def _stream(text: str) -> Stream:
    return Stream.of(text)


@functools.lru_cache(maxsize=64)
def _index(text: str) -> GramIndex:
    return GramIndex(_stream(text).codes, RUN)
