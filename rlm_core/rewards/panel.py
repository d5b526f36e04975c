"""Several judges as one: the mean of their scores, or what a strict majority of them reaches."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Literal

from rlm_core.records import Judgement
from rlm_core.rewards.criteria import PRECISION_RECALL, Criterion, weighted_reward
from rlm_core.rewards.judges import Judge, JudgeError, JudgeOutOfReach

Rule = Literal["mean", "majority"]


class PanelJudge:
    """A panel with one verdict; `criteria` are those that all its judges rate.

    `mean`: every criterion's mean; a judge that fails fails the panel, for a mean over fewer is another measure.
    `majority`: a criterion's highest score that more than half of *all* judges reach; a judge that failed reaches none, so
    that silence never decides. Raises `JudgeError` when no score has a majority, `JudgeOutOfReach` when all judges do.
    """

    def __init__(
        self, judges: Sequence[Judge], rule: Rule = "mean", criteria: Sequence[Criterion] = PRECISION_RECALL
    ) -> None:
        if not judges:
            raise ValueError("a panel needs at least one judge")
        self.judges = tuple(judges)
        self.rule, self.criteria = rule, tuple(criteria)
        self.name = f"panel-{rule}({', '.join(judge.name for judge in judges)})"

    async def score(self, question: str, predicted: Any, gold: Sequence[str] | str) -> Judgement:
        found = await asyncio.gather(
            *(judge.score(question, predicted, gold) for judge in self.judges), return_exceptions=True
        )
        verdicts = [v for v in found if isinstance(v, Judgement)]
        failures = [v for v in found if isinstance(v, BaseException)]
        for failure in failures:
            if not isinstance(failure, JudgeError):
                raise failure
        if all(isinstance(answer, JudgeOutOfReach) for answer in found):
            raise JudgeOutOfReach(
                f"none of {len(found)} judges can be reached, the first: {failures[0]}"
            ) from failures[0]
        if failures and self.rule == "mean":
            raise JudgeError(f"{len(failures)} of {len(found)} judges failed, the first with: {failures[0]}")
        rows = [{"precision": v.precision, "recall": v.recall, **v.criteria} for v in verdicts]
        scores = {c.name: self._combine([row[c.name] for row in rows], failures) for c in self.criteria}
        return Judgement(
            precision=round(scores["precision"]),
            recall=round(scores["recall"]),
            reward=weighted_reward(scores, self.criteria),
            rationale="; ".join(f"{v.judge}: {v.rationale}" for v in verdicts),
            judge=self.name,
            criteria=scores,
            reasons={c.name: told for c in self.criteria if (told := _reasons(verdicts, c.name))},
        )

    def _combine(self, scores: Sequence[float], failures: Sequence[BaseException]) -> float:
        if self.rule == "mean":
            return sum(scores) / len(scores)
        try:
            return strict_majority(scores, len(self.judges))
        except ValueError as error:
            raise JudgeError(f"{error}; the first failure: {failures[0]}") from error


def _reasons(verdicts: Sequence[Judgement], name: str) -> str:
    return "; ".join(f"{v.judge}: {v.reasons[name]}" for v in verdicts if name in v.reasons)


def strict_majority(scores: Sequence[float], size: int) -> float:
    """The highest score that more than half of `size` judges reach; raises `ValueError` when too few gave one.

    >>> strict_majority([9, 5, 7], 3), strict_majority([9, 5], 2), strict_majority([9, 7], 3)
    (7, 5, 7)
    """
    needed = size // 2 + 1
    if len(scores) < needed:
        raise ValueError(f"{len(scores)} of {size} judges gave a score: no majority")
    return sorted(scores, reverse=True)[needed - 1]
