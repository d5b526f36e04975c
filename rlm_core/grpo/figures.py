"""What a step's rollouts looked like, as figures for curves: rewards, the guard that rewards never see, behaviour."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from rlm_core.records import ErrorClass, Judgement, Query, Rollout, Status
from rlm_core.rewards import answer_passages, evidence_f1
from rlm_core.rollouts import failures

if TYPE_CHECKING:
    from rlm_core.grpo.batches import Batch
    from rlm_core.grpo.learner import Update


def rollout_figures(
    queries: Sequence[Query],
    rollouts: Sequence[Rollout],
    judgements: Sequence[Judgement | None],
    guards: Sequence[Judgement | None] | None = None,
) -> dict[str, float]:
    """`queries[i]` is the query of `rollouts[i]`. Means are over trees, except shares of turns, which are over turns.

    A tree in which the harness failed counts in `failed_rollouts` and in no figure of answers; one that only the judge failed
    counts in `judge_failures` and in no reward. `guards`: verdicts of a judge that the reward never sees. Keys whose mean is
    over nothing are left out.
    """
    sound = [(q, r) for q, r in zip(queries, rollouts, strict=True) if not failures(r)]
    judged = [(q, r, j) for q, r, j in zip(queries, rollouts, judgements, strict=True) if j is not None]
    nodes = [node for tree in rollouts for node in tree.walk()]
    turns = [turn for node in nodes for turn in node.turns]
    figures = {
        "reward_mean": _mean([j.reward for _, _, j in judged]),
        "judge_precision": _mean([j.precision for _, _, j in judged]),
        "judge_recall": _mean([j.recall for _, _, j in judged]),
        "evidence_f1": _mean([evidence_f1(answer_passages(r.answer), q.gold).f1 for q, r in sound if q.gold]),
        "guard_reward": _mean([g.reward for g in guards or () if g is not None]),
        "answered_share": _mean([float(r.status is Status.ANSWERED) for _, r in sound]),
        "failed_rollouts": float(len(rollouts) - len(sound)),
        "judge_failures": float(len(sound) - len(judged)),
        "turns_mean": _mean([len(node.turns) for node in nodes]),
        "children_mean": _mean([sum(1 for _ in tree.walk()) - 1 for tree in rollouts]),
        "format_error_share": _mean([float(t.error in (ErrorClass.FORMAT, ErrorClass.ANSWER)) for t in turns]),
        "code_error_share": _mean([float(t.error is ErrorClass.CODE) for t in turns]),
        "length_cut_share": _mean([float(t.error is ErrorClass.LENGTH) for t in turns]),
        "turn_tokens_mean": _mean([len(t.completion_ids) for t in turns]),
        "completion_tokens": float(sum(len(t.completion_ids) for t in turns)),
    }
    for kind in sorted({q.kind for q, _, _ in judged}):
        figures[f"reward_kind_{kind}"] = _mean([j.reward for q, _, j in judged if q.kind == kind])
    for tier in sorted({q.tier for q, _, _ in judged}):
        figures[f"reward_tier_{tier.replace('+', 'plus')}"] = _mean([j.reward for q, _, j in judged if q.tier == tier])
    return {key: value for key, value in figures.items() if value is not None}


def batch_figures(batch: Batch) -> dict[str, float]:
    """A batch's rollouts, how many of its groups give signal, and the seconds it took.

    `distinct_answers_mean`: different answers a group. Near 1, groups are equal because the policy says one thing, and no
    finer judge would tell its trees apart.
    """
    trees = [n for n, advantage in enumerate(batch.advantages) if advantage is not None]
    answers = [json.dumps(tree.answer, sort_keys=True, default=str) for tree in batch.rollouts]
    groups = [answers[start : start + batch.group_size] for start in range(0, len(answers), batch.group_size)]
    return {
        **rollout_figures(batch.queries, batch.rollouts, batch.judgements, batch.guards),
        "groups": float(batch.num_groups),
        "dropped_groups": float(batch.num_groups - batch.num_informative),
        "dropped_share": 1 - batch.num_informative / batch.num_groups,
        "distinct_answers_mean": fmean(len(set(group)) for group in groups),
        "multi_groups": sum(q.kind == "multi" for q in batch.queries) / batch.group_size,
        "multi_tree_share": _share([batch.queries[n].kind == "multi" for n in trees]),
        **batch.seconds,
    }


def update_figures(update: Update) -> dict[str, float]:
    """What an update did: see `LossReport`."""
    report = update.report
    return {
        "loss": report.loss,
        "grad_norm": update.grad_norm,
        "lr": update.lr,
        "kl": report.kl,
        "entropy": report.entropy,
        "ratio_outside": report.ratio_outside,
        "logp_gap": report.logp_gap,
        "clipped": report.clipped,
        "train_samples": float(report.num_samples),
        "train_tokens_scored": float(report.num_scored),
        "train_tokens_computed": float(report.num_computed),
    }


def per_second(figures: Mapping[str, float]) -> dict[str, float]:
    """Tokens a second: sampled over the roll-out, learned from over the training."""
    pairs = {"tokens_per_second": ("completion_tokens", "seconds_rollout"),
             "train_tokens_per_second": ("train_tokens_scored", "seconds_train")}  # fmt: skip
    return {name: figures[tokens] / max(1e-9, figures[seconds]) for name, (tokens, seconds) in pairs.items()}


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def _share(values: Sequence[bool]) -> float:
    return sum(values) / len(values) if values else 0.0
