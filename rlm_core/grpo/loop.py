"""The training loop: roll out, judge, weigh, update, publish, save. It reads as the recipe.

    for step:  rollouts -> rewards -> advantages -> turn samples -> one update -> weights to the sampler -> checkpoint

On-policy: one update a batch, and every sampled token's weights version is checked. All randomness is derived from the
seed and the step, so a run that is killed and taken up again draws the same queries and the same sampling seeds.
"""

# Q queries of a step, G trees each

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlm_core.grpo.actor import Actor, check_versions
from rlm_core.grpo.advantages import group_advantages
from rlm_core.grpo.figures import guard_parted, rollout_figures
from rlm_core.grpo.learner import Learner, Update
from rlm_core.grpo.state import TrainingState, load_checkpoint, save_checkpoint
from rlm_core.grpo.weights import turn_samples
from rlm_core.params import GrpoParams
from rlm_core.progress import Progress
from rlm_core.records import Judgement, Query, Rollout
from rlm_core.rewards import Judge, judge_all
from rlm_core.rollouts import derive_seed, failures

log = logging.getLogger("rlm.grpo")

JUDGE_CONCURRENCY = 32


@dataclass(frozen=True, slots=True)
class StepLog:
    """What a step hands to whoever keeps logs."""

    step: int
    """Updates that the rollouts' weights had seen."""
    figures: dict[str, float]
    rollouts: list[Rollout]
    judgements: list[Judgement | None]
    kind: str = "train"
    """`train`, or `val` for an evaluation on validation queries."""


@dataclass
class Training:
    """One run: what trains, what samples, what judges, and where it is kept."""

    learner: Learner
    actor: Actor
    judge: Judge
    queries: Sequence[Query]
    """With their contexts attached."""
    validation: Sequence[Query]
    config: GrpoParams
    seed: int
    folder: Path
    """For checkpoints (`step-N`) and the best weights (`best`)."""
    save_best: Callable[[Any, Path], None]
    """Writes the model's weights to a folder, whole or not at all."""
    on_log: Callable[[StepLog], None] = lambda log: None
    extra: dict[str, Any] = field(default_factory=dict)
    """Kept in every checkpoint, e.g. the id of the tracking run."""

    async def run(self) -> TrainingState:
        """Train to `config.steps` or `config.max_sampled_tokens`, from the newest checkpoint if there is one."""
        if not self.queries:
            raise ValueError("no training queries")
        state = load_checkpoint(self.folder, self.learner) or TrainingState()
        if state.step:
            await self.actor.publish(self.learner.served)
        with Progress("grpo", self.config.steps, "steps", done=state.step, every_seconds=0) as progress:
            while not self._is_over(state):
                step = state.step
                await self.validate(state, step)
                figures = await self.train_step(step)
                state.curve.append({"step": step, **figures})
                state.step = step + 1
                if state.step % self.config.save_every == 0 or self._is_over(state):
                    save_checkpoint(self.folder, self.learner, state, self.extra)
                progress.advance(note=_note(figures))
                if guard_parted(state.curve):
                    log.warning(
                        "the reward rises while evidence F1, which it does not see, falls: the model may be learning to "
                        "please the judge; read some rollouts before you trust the reward"
                    )
        await self.validate(state, state.step)
        return state

    def _is_over(self, state: TrainingState) -> bool:
        """All steps are done, or the budget of sampled tokens is spent."""
        limit = self.config.max_sampled_tokens
        spent = limit is not None and sum(row["completion_tokens"] for row in state.curve) >= limit
        return spent or state.step >= self.config.steps

    async def train_step(self, step: int) -> dict[str, float]:
        """One batch of rollouts, one update; returns the step's figures."""
        clock = _Clock()
        group_size = self.config.rollouts_per_query
        batch_Q = draw(self.queries, self.config.queries_per_step, step, self.seed)
        rollouts, version = await self._roll_out(batch_Q, group_size, derive_seed(self.seed, "train", step))
        clock.lap("seconds_rollout")
        check_versions(rollouts, version, frozen_children=self.config.children == "frozen")
        queries_QG = [query for query in batch_Q for _ in range(group_size)]
        judgements = await judge_trees(self.judge, queries_QG, rollouts)
        clock.lap("seconds_judge")
        advantages, dropped = self._advantages(judgements, group_size)
        samples = turn_samples(rollouts, advantages, self.config)
        update = self.learner.update(samples, step)
        clock.lap("seconds_train")
        await self.actor.publish(self.learner.served)
        clock.lap("seconds_publish")
        figures = {
            **rollout_figures(queries_QG, rollouts, judgements),
            "dropped_groups": float(dropped),
            **_update_figures(update),
            **clock.laps,
        }
        figures["tokens_per_second"] = figures["completion_tokens"] / max(1e-9, clock.laps["seconds_rollout"])
        self.on_log(StepLog(step, figures, rollouts, judgements))
        return figures

    async def validate(self, state: TrainingState, step: int) -> None:
        """Roll out on validation queries where the schedule says so (and before the first and after the last update)."""
        every = self.config.eval_every
        due = every and (step % every == 0 or self._is_over(state))
        if not due or not self.validation:
            return
        queries = list(self.validation)[: self.config.eval_queries]
        samples = self.config.eval_samples
        rollouts, _ = await self._roll_out(queries, samples, derive_seed(self.seed, "val"))
        queries_QG = [query for query in queries for _ in range(samples)]
        judgements = await judge_trees(self.judge, queries_QG, rollouts)
        figures = {f"val_{k}": v for k, v in rollout_figures(queries_QG, rollouts, judgements).items()}
        self.on_log(StepLog(step, figures, rollouts, judgements, kind="val"))
        state.validation.append({"step": step, **figures})
        reward = figures.get("val_reward_mean")
        if reward is not None and (state.best_reward is None or reward > state.best_reward):
            self.save_best(self.learner.served, self.folder / "best")
            state.best_reward, state.best_step = reward, step

    async def _roll_out(self, queries: Sequence[Query], samples: int, seed: int) -> tuple[list[Rollout], int]:
        version = self.actor.version
        rollouts = await self.actor.roll_out(queries, samples=samples, seed=seed)
        if len(rollouts) != len(queries) * samples:
            raise RuntimeError(f"{len(rollouts)} rollouts came back for {len(queries)} queries x {samples}")
        return rollouts, version

    def _advantages(self, judgements: Sequence[Judgement | None], group_size: int) -> tuple[list[float | None], int]:
        """An advantage a tree, group by group, and the number of groups that give no signal."""
        advantages: list[float | None] = []
        dropped = 0
        for start in range(0, len(judgements), group_size):
            rewards_G = [j.reward if j else None for j in judgements[start : start + group_size]]
            group = group_advantages(rewards_G, scale_by_std=self.config.scale_by_std)
            dropped += all(a is None for a in group)
            advantages += group
        return advantages, dropped


def draw(queries: Sequence[Query], count: int, step: int, seed: int) -> list[Query]:
    """The queries of a step: the list is shuffled anew each epoch; a step takes the next `count`, across epochs if need be."""
    chosen = []
    for position in range(step * count, (step + 1) * count):
        epoch, place = divmod(position, len(queries))
        order = list(range(len(queries)))
        random.Random(derive_seed(seed, "queries", epoch)).shuffle(order)
        chosen.append(queries[order[place]])
    return chosen


async def judge_trees(judge: Judge, queries: Sequence[Query], rollouts: Sequence[Rollout]) -> list[Judgement | None]:
    """A verdict a tree; None where the judge failed, and where the harness failed anywhere in the tree."""
    asked = [i for i, tree in enumerate(rollouts) if not failures(tree)]
    items = [(queries[i].question, rollouts[i].answer, queries[i].gold) for i in asked]
    verdicts: list[Judgement | None] = [None] * len(rollouts)
    for index, verdict in zip(asked, await judge_all(judge, items, JUDGE_CONCURRENCY), strict=True):
        verdicts[index] = verdict
    return verdicts


def _update_figures(update: Update) -> dict[str, float]:
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


def _note(figures: dict[str, float]) -> str:
    parts = [f"{k.removesuffix('_mean')} {figures[k]:.3g}" for k in _SHOWN if k in figures]
    return ", ".join(parts)


_SHOWN = ("reward_mean", "evidence_f1", "answered_share", "dropped_groups", "grad_norm", "entropy", "seconds_rollout",
          "seconds_train")  # fmt: skip


class _Clock:
    def __init__(self) -> None:
        self._last = time.monotonic()
        self.laps: dict[str, float] = {}

    def lap(self, name: str) -> None:
        now = time.monotonic()
        self.laps[name] = now - self._last
        self._last = now
