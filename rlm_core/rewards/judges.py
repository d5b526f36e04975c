"""What a judge is, the lexical judge, and judging many answers at once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from rlm_core.params import JudgeParams
from rlm_core.records import Judgement
from rlm_core.rewards.answers import answer_passages, read_within
from rlm_core.rewards.overlap import evidence_f1

log = logging.getLogger("rlm.judge")


class JudgeError(RuntimeError):
    """The judge gave no verdict. The answer is unscored: its tree leaves the group, it is never a zero."""


class JudgeOutOfReach(JudgeError):
    """Its endpoint refused, or kept silent in all tries: what was asked has no part in it."""


GIVE_UP_AFTER = 8
"""Answers in a row that found nobody to judge them, after which nothing more is asked."""


@runtime_checkable
class Judge(Protocol):
    @property
    def name(self) -> str: ...

    async def score(self, question: str, predicted: Any, gold: Sequence[str] | str) -> Judgement:
        """Judge one answer (any JSON) by the gold passages; raises `JudgeError`."""
        ...


class Item(NamedTuple):
    """One answer to judge."""

    question: str
    predicted: Any
    gold: Sequence[str]


class LexicalJudge:
    """Deterministic judge on the rubric's scale, from evidence precision and recall over letters.

    Each criterion is `1 + 9 x share`, rounded: 10 for all, 1 for none; the reward is (precision + recall) / 20, as the
    published recipe maps its rubric. An empty or irrelevant answer so gets 0.1, exact evidence 1.0, in steps of 0.05;
    a group's advantages depend on differences only, so the floor of 0.1 teaches nothing wrong. It reads letters, not
    meaning: a paraphrase of the evidence is worth nothing to it. What a judge reads at most: `answers.read_within`.
    """

    name = "lexical"

    async def score(self, question: str, predicted: Any, gold: Sequence[str] | str) -> Judgement:
        return self.judge(question, predicted, gold)

    def judge(self, question: str, predicted: Any, gold: Sequence[str] | str) -> Judgement:
        """As `score`, without waiting."""
        evidence = gold_passages(gold)
        passages, unread = read_within(answer_passages(predicted), evidence)
        overlap = evidence_f1(passages, evidence)
        read = sum(len(p) for p in passages)
        share = overlap.precision * read / (read + unread) if read else 0.0
        precision, recall = to_scale(share), to_scale(overlap.recall)
        reasons = {
            "precision": f"{share:.0%} of the answer's letters are evidence",
            "recall": f"it holds {overlap.recall:.0%} of the evidence's",
        }
        rationale = f"{reasons['precision']}; {reasons['recall']}"
        if not passages:
            rationale = "the answer holds no text"
            reasons = dict.fromkeys(reasons, rationale)
        elif unread:
            rationale += f"; {unread} characters beyond the judge's limit were not read"
        return Judgement(precision, recall, (precision + recall) / 20, rationale, self.name, reasons=reasons)


def gold_passages(gold: Sequence[str] | str) -> list[str]:
    """The gold as a list; raises `JudgeError` when it holds no text, for then nothing can be judged."""
    passages = answer_passages(gold)
    if not passages:
        raise JudgeError("no gold evidence to judge by: the query has none, leave it out")
    return passages


def to_scale(share: float) -> int:
    """A share 0..1 on the rubric's scale 1..10."""
    return 1 + round(9 * share)


async def judge_all(
    judge: Judge,
    items: Sequence[tuple[str, Any, Sequence[str]]],
    concurrency: int = 16,
    *,
    on_done: Callable[[], object] = lambda: None,
) -> list[Judgement | None]:
    """Judge (question, predicted, gold) items, at most `concurrency` at once; in order, None where the judge failed.

    `on_done` is called after each. Raises `JudgeOutOfReach` when `GIVE_UP_AFTER` items in a row, or all of fewer, met with
    it: each of the rest would wait as long for nothing.
    """
    gate = asyncio.Semaphore(max(1, concurrency))
    patience = min(GIVE_UP_AFTER, len(items))
    unreached = 0

    async def one(question: str, predicted: Any, gold: Sequence[str]) -> Judgement | None:
        nonlocal unreached
        async with gate:
            try:
                verdict = await judge.score(question, predicted, gold)
            except JudgeError as error:
                log.warning("%s judge: no verdict: %s", judge.name, error)
                unreached += isinstance(error, JudgeOutOfReach)
                if unreached >= patience:
                    raise
                return None
            else:
                unreached = 0
                return verdict
            finally:
                on_done()

    tasks = [asyncio.ensure_future(one(*item)) for item in items]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def make_judge(params: JudgeParams, cache_folder: Path | None = None) -> Judge:
    """The judge or panel that the params name. `cache_folder` keeps rubric verdicts between runs.

    Raises `ValueError` for a criteria file that cannot be used.
    """
    if params.kind == "lexical":
        return LexicalJudge()
    from rlm_core.rewards.criteria import PRECISION_RECALL, load_criteria
    from rlm_core.rewards.panel import PanelJudge  # these import this module
    from rlm_core.rewards.rubric import RubricJudge

    criteria = load_criteria(params.criteria) if params.criteria else PRECISION_RECALL
    judges = [
        RubricJudge(endpoint, cache_folder=cache_folder, guard=params.guard, criteria=criteria)
        for endpoint in params.endpoints
    ]
    return judges[0] if len(judges) == 1 else PanelJudge(judges, params.panel_rule, criteria)
