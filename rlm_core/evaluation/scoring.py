"""From a rollout and its verdict to the figures of one sample. A failure of the harness or of the judge is None, never 0."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

from rlm_core.evaluation.by_paper import evidence_by_paper, macro
from rlm_core.params import EndpointParams
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
    WRONG_PAPER = "wrong_paper"
    """Nothing of the answer is evidence, and none of the papers that it quotes holds any."""
    NO_EVIDENCE = "no_evidence"
    """Nothing of the answer is evidence: another place of the right paper, or no quotation at all."""
    PADDED = "padded"
    """It does not pass, and holds more that is no evidence than it misses."""
    INCOMPLETE = "incomplete"
    """It does not pass, and misses more of the evidence than it pads."""


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
    papers: PRF | None
    """Of the papers that the answer names or quotes against those that hold evidence; None when the harness failed."""
    ended_in_answer: bool | None
    """The root answered as the protocol asks; None when the harness failed."""
    cause: Cause
    seconds: float
    prompt_tokens: int
    completion_tokens: int
    cost: float | None
    """In the currency of the endpoint's prices; None where there is no price."""
    turns: int
    """Of the root."""
    children: int
    """Descendants."""
    turn_errors: Mapping[str, int]
    """Turns by error class, all nodes."""
    detail: str = ""
    """For a sample with a cause: what happened, in a line."""
    by_paper: PRF | None = None
    """As `overlap`, but the mean over the papers of gold and answer; None when the harness failed."""

    @property
    def tokens(self) -> int:
        """Read and written."""
        return self.prompt_tokens + self.completion_tokens

    @property
    def reward(self) -> float | None:
        return self.judgement.reward if self.judgement else None

    @property
    def passed(self) -> bool | None:
        return None if self.judgement is None else self.judgement.reward >= PASS_REWARD


def failed(rollout: Rollout) -> bool:
    """Whether the harness failed anywhere in the tree, so that it cannot be scored."""
    return bool(failures(rollout))


def score_sample(
    query: Query, rollout: Rollout, judgement: Judgement | None, *, prices: EndpointParams | None = None
) -> Sample:
    """The figures of one sample. `judgement` is None where the judge failed, and is not looked at where the harness did.

    `prices`: the endpoint that acted; without, the cost is unknown.
    """
    harness_failed = failed(rollout)
    passages = answer_passages(rollout.answer)
    overlap = None if harness_failed else evidence_f1(passages, query.gold)
    chosen = chosen_papers(query, rollout.answer)
    usage = rollout.usage
    errors = Counter(
        str(turn.error) for node in rollout.walk() for turn in node.turns if turn.error is not ErrorClass.NONE
    )
    cause = _cause(query, rollout, judgement, passages, overlap, chosen)
    return Sample(
        query_id=query.id,
        sample=int(rollout.provenance.get("sample", 0)),
        rollout_id=rollout.id,
        judgement=None if harness_failed else judgement,
        overlap=overlap,
        papers=None if harness_failed else paper_selection(query, chosen),
        ended_in_answer=None if harness_failed else rollout.status is Status.ANSWERED,
        cause=cause,
        seconds=usage.wall_seconds,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cost=prices.cost(usage.prompt_tokens, usage.completion_tokens) if prices else None,
        turns=len(rollout.turns),
        children=usage.children,
        turn_errors=dict(sorted(errors.items())),
        detail=_detail(cause, rollout, passages),
        by_paper=None if harness_failed else macro(evidence_by_paper(query, passages)),
    )


_ENDINGS = {
    Status.OUT_OF_TURNS: Cause.OUT_OF_TURNS,
    Status.OUT_OF_BUDGET: Cause.OUT_OF_BUDGET,
    Status.CANCELLED: Cause.CANCELLED,
}


def _cause(
    query: Query,
    rollout: Rollout,
    judgement: Judgement | None,
    passages: list[str],
    overlap: PRF | None,
    chosen: set[str],
) -> Cause:
    if overlap is None:
        return Cause.HARNESS
    if judgement is None:
        return Cause.JUDGE
    if rollout.status in _ENDINGS:
        return _ENDINGS[rollout.status]
    if not passages:
        return Cause.EMPTY
    if judgement.reward >= PASS_REWARD:
        return Cause.NONE
    if overlap.f1 == 0:
        gold = {evidence.paper_id for evidence in query.evidence}
        return Cause.WRONG_PAPER if chosen and not chosen & gold else Cause.NO_EVIDENCE
    return Cause.PADDED if overlap.precision < overlap.recall else Cause.INCOMPLETE


DETAIL = 200
"""Characters of a detail at most."""


def _detail(cause: Cause, rollout: Rollout, passages: list[str]) -> str:
    """What the harness failed at, else where the last turn stopped, else the head of the answer; on one line."""
    if cause is Cause.NONE:
        return ""
    if cause is Cause.HARNESS:
        text = "; ".join(failures(rollout))
    elif cause in _ENDINGS.values() and rollout.turns:
        last = rollout.turns[-1]
        error = "" if last.error is ErrorClass.NONE else f" ({last.error})"
        text = f"last turn{error}: {last.text}"
    elif cause is Cause.JUDGE:
        text = "no verdict; see the log of the stage"
    else:
        text = f"answer: {passages[0]}" if passages else f"answer: {rollout.answer!r}"
    flat = " ".join(text.split())
    return flat if len(flat) <= DETAIL else f"{flat[: DETAIL - 3]}..."


QUOTE = 80
"""Letters at the head of a passage by which the paper that it was copied from is told."""


def paper_selection(query: Query, chosen: set[str]) -> PRF:
    """Precision, recall and F1 of the papers chosen against those that hold evidence; all 1.0 for two empty sets."""
    gold = {evidence.paper_id for evidence in query.evidence}
    if not gold and not chosen:
        return PRF(1.0, 1.0, 1.0)
    right = len(gold & chosen)
    if not right:
        return PRF(0.0, 0.0, 0.0)
    return PRF(right / len(chosen), right / len(gold), 2 * right / (len(gold) + len(chosen)))


def chosen_papers(query: Query, answer: Any) -> set[str]:
    """The papers that an answer names by id or quotes, which its passages' first letters tell."""
    quoted = {paper_id for passage in answer_passages(answer) for paper_id in papers_of(query, passage)}
    return named_papers(query, answer) | quoted


def named_papers(query: Query, answer: Any) -> set[str]:
    """The ids of the query's papers that stand as a text or a key anywhere in the answer."""
    if isinstance(answer, str):
        return {answer} if isinstance(query.context, dict) and answer in query.context else set()
    if isinstance(answer, Mapping):
        return {p for pair in answer.items() for part in pair for p in named_papers(query, part)}
    if isinstance(answer, list | tuple):
        return {p for part in answer for p in named_papers(query, part)}
    return set()


def papers_of(query: Query, passage: str) -> list[str]:
    """The papers of the query's context that hold the passage's first letters."""
    head = _letters(passage)[:QUOTE]
    if len(head) < 8 or not isinstance(query.context, dict):
        return []
    return [paper_id for paper_id, paper in query.context.items() if head in _letters(str(paper["text"]))]


@lru_cache(maxsize=512)
def _letters(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).lower()
