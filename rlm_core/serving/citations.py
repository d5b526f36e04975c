"""Where the passages of an answer stand: the paper and the page that hold each, or none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlm_core.records import Rollout
from rlm_core.rewards import answer_passages

if TYPE_CHECKING:
    from rlm_core.papers import Paper


@dataclass(frozen=True, slots=True)
class CitedPassage:
    """One passage of an answer. Without a paper, none holds it: the model made it up, or changed it beyond recognition."""

    text: str
    paper_id: str | None = None
    title: str | None = None
    page: int | None = None
    """From 1."""
    score: float = 0.0
    """Share of the passage's characters that the paper holds there, 0..1."""


def cite(rollout: Rollout, library: Mapping[str, Paper]) -> list[CitedPassage]:
    """The passages of a tree's answer, in its order. Aligning them takes processor time: call it in a thread."""
    return [_cited(passage, library) for passage in answer_passages(rollout.answer)]


def _cited(passage: str, library: Mapping[str, Paper]) -> CitedPassage:
    from rlm_core.synthesis import locate

    best = CitedPassage(passage)
    for paper in library.values():
        spans = locate(passage, paper.text)
        if spans and (best.paper_id is None or spans[0].score > best.score):
            best = CitedPassage(passage, paper.id, paper.title, paper.page_of(spans[0].start), spans[0].score)
    return best
