"""What a step's rollouts looked like, as figures for curves: rewards, the guard that rewards never see, behaviour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from rlm_core.records import ErrorClass, Judgement, Query, Rollout, Status
from rlm_core.rewards import answer_passages, evidence_f1


def rollout_figures(
    queries: Sequence[Query], rollouts: Sequence[Rollout], judgements: Sequence[Judgement | None]
) -> dict[str, float]:
    """`queries[i]` is the query of `rollouts[i]`. Means are over trees, except shares of turns, which are over turns.

    A tree without a verdict counts in `judge_failures` and in no reward. Keys whose mean is over nothing are left out.
    """
    judged = [(q, r, j) for q, r, j in zip(queries, rollouts, judgements, strict=True) if j is not None]
    nodes = [node for tree in rollouts for node in tree.walk()]
    turns = [turn for node in nodes for turn in node.turns]
    figures = {
        "reward_mean": _mean([j.reward for _, _, j in judged]),
        "judge_precision": _mean([j.precision for _, _, j in judged]),
        "judge_recall": _mean([j.recall for _, _, j in judged]),
        "evidence_f1": _mean(
            [
                evidence_f1(answer_passages(r.answer), q.gold).f1
                for q, r in zip(queries, rollouts, strict=True)
                if q.gold
            ]
        ),
        "answered_share": _mean([float(r.status is Status.ANSWERED) for r in rollouts]),
        "failed_rollouts": float(sum(r.status is Status.FAILED for r in rollouts)),
        "judge_failures": float(
            sum(j is None and r.status is not Status.FAILED for r, j in zip(rollouts, judgements, strict=True))
        ),
        "turns_mean": _mean([len(node.turns) for node in nodes]),
        "children_mean": _mean([sum(1 for _ in tree.walk()) - 1 for tree in rollouts]),
        "format_error_share": _mean([float(t.error in (ErrorClass.FORMAT, ErrorClass.ANSWER)) for t in turns]),
        "code_error_share": _mean([float(t.error is ErrorClass.CODE) for t in turns]),
        "length_cut_share": _mean([float(t.error is ErrorClass.LENGTH) for t in turns]),
        "turn_tokens_mean": _mean([len(t.completion_ids) for t in turns]),
        "completion_tokens": float(sum(len(t.completion_ids) for t in turns)),
    }
    for tier in sorted({q.tier for q, _, _ in judged}):
        figures[f"reward_tier_{tier.replace('+', 'plus')}"] = _mean([j.reward for q, _, j in judged if q.tier == tier])
    return {key: value for key, value in figures.items() if value is not None}


def guard_parted(curve: Sequence[Mapping[str, float]], *, window: int = 8, least: float = 0.05) -> bool:
    """Whether the reward has risen by `least` while evidence F1, which it never sees, has fallen by as much.

    Compares the mean of the last `window` steps with that of the first; False before there are two windows.
    """
    rows = [row for row in curve if "reward_mean" in row and "evidence_f1" in row]
    if len(rows) < 2 * window:
        return False

    def change(key: str) -> float:
        return fmean(r[key] for r in rows[-window:]) - fmean(r[key] for r in rows[:window])

    return change("reward_mean") >= least and change("evidence_f1") <= -least


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None
