"""From a rollout and its verdict to the figures of one sample. A failure of the harness or of the judge is None, never 0."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from rlm_core.records import ErrorClass, Judgement, Query, Rollout, Status
from rlm_core.rewards import PRF, answer_passages, evidence_f1
from rlm_core.rollouts import failures

PASS_REWARD = 0.5
"""A sample passes (for pass@k) with this judge reward: (precision + recall) / 20, so 10 of 20 points."""


class Cause(StrEnum):
    """Why a sample is not a full success, the first that applies."""

    NONE = "none"
    HARNESS = "harness"
    """The endpoint or the sandbox failed anywhere in the tree: unscored."""
    JUDGE = "judge"
    """The judge gave no verdict: the judge figures are unscored."""
    OUT_OF_TURNS = "out_of_turns"
    OUT_OF_BUDGET = "out_of_budget"
    CANCELLED = "cancelled"
    EMPTY = "empty_answer"
    """Answered with no text."""
    NO_EVIDENCE = "no_evidence"
    """Answered, and nothing of the answer is evidence."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample of one query in one arm."""

    query_id: str
    sample: int
    rollout_id: str
    judgement: Judgement | None
    """None: unscored."""
    overlap: PRF | None
    """Evidence precision, recall and F1 over letters; None when the harness failed."""
    paper_f1: float | None
    """F1 of the papers that the answer quotes against those that hold evidence; None when the harness failed."""
    ended_in_answer: bool | None
    """The root answered as the protocol asks; None when the harness failed."""
    cause: Cause
    seconds: float
    tokens: int
    completion_tokens: int
    turns: int
    """Of the root."""
    children: int
    """Descendants."""
    turn_errors: Mapping[str, int]
    """Turns by error class, all nodes."""

    @property
    def reward(self) -> float | None:
        return self.judgement.reward if self.judgement else None

    @property
    def passed(self) -> bool | None:
        return None if self.judgement is None else self.judgement.reward >= PASS_REWARD


def failed(rollout: Rollout) -> bool:
    """Whether the harness failed anywhere in the tree, so that it cannot be scored."""
    return bool(failures(rollout))


def score_sample(query: Query, rollout: Rollout, judgement: Judgement | None) -> Sample:
    """The figures of one sample. `judgement` is None where the judge failed, and is not looked at where the harness did."""
    harness_failed = failed(rollout)
    passages = answer_passages(rollout.answer)
    overlap = None if harness_failed else evidence_f1(passages, query.gold)
    usage = rollout.usage
    errors = Counter(
        str(turn.error) for node in rollout.walk() for turn in node.turns if turn.error is not ErrorClass.NONE
    )
    return Sample(
        query_id=query.id,
        sample=int(rollout.provenance.get("sample", 0)),
        rollout_id=rollout.id,
        judgement=None if harness_failed else judgement,
        overlap=overlap,
        paper_f1=None if harness_failed else paper_f1(query, passages),
        ended_in_answer=None if harness_failed else rollout.status is Status.ANSWERED,
        cause=_cause(rollout, harness_failed, judgement, passages, overlap),
        seconds=usage.wall_seconds,
        tokens=usage.prompt_tokens + usage.completion_tokens,
        completion_tokens=usage.completion_tokens,
        turns=len(rollout.turns),
        children=usage.children,
        turn_errors=dict(sorted(errors.items())),
    )


_ENDINGS = {
    Status.OUT_OF_TURNS: Cause.OUT_OF_TURNS,
    Status.OUT_OF_BUDGET: Cause.OUT_OF_BUDGET,
    Status.CANCELLED: Cause.CANCELLED,
}


def _cause(
    rollout: Rollout, harness_failed: bool, judgement: Judgement | None, passages: list[str], overlap: PRF | None
) -> Cause:
    if harness_failed:
        return Cause.HARNESS
    if judgement is None:
        return Cause.JUDGE
    if rollout.status in _ENDINGS:
        return _ENDINGS[rollout.status]
    if not passages:
        return Cause.EMPTY
    return Cause.NO_EVIDENCE if overlap is not None and overlap.f1 == 0 else Cause.NONE


QUOTE = 80
"""Letters at the head of a passage by which the paper that it was copied from is told."""


def paper_f1(query: Query, passages: list[str]) -> float:
    """F1 of the set of papers quoted, told by each passage's first letters in the papers' text; 1.0 for two empty sets."""
    gold = {evidence.paper_id for evidence in query.evidence}
    quoted = {paper_id for passage in passages for paper_id in papers_of(query, passage)}
    if not gold and not quoted:
        return 1.0
    return 2 * len(gold & quoted) / (len(gold) + len(quoted))


def papers_of(query: Query, passage: str) -> list[str]:
    """The papers of the query's context that hold the passage's first letters."""
    head = _letters(passage)[:QUOTE]
    if len(head) < 8 or not isinstance(query.context, dict):
        return []
    return [paper_id for paper_id, paper in query.context.items() if head in _letters(str(paper["text"]))]


@lru_cache(maxsize=512)
def _letters(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).lower()
