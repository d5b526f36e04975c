"""The training loop: roll out, judge, weigh, update, publish, save. It reads as the recipe.

    for step:  rollouts -> rewards -> advantages -> turn samples -> one update -> weights to the sampler -> checkpoint

On-policy (`ahead: 0`): one update a batch, by the weights that sampled it. With `ahead: 1` the next batch is rolled out
while this one trains; its tokens are one update old and the loss weighs them (`objective.py`). Either way each sampled
token's weights version is checked to be the one expected. All randomness is derived from the seed, the step and the
position of the draws, all of which a checkpoint holds, as it holds a batch rolled out ahead: a run that is killed and taken
up again goes through the same numbers. Figures are logged when what they tell of is on disk, so none is told twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from rlm_core.grpo import figures as fig
from rlm_core.grpo.actor import Actor
from rlm_core.grpo.batches import Batch, Collector, Served
from rlm_core.grpo.guard import parted_guards
from rlm_core.grpo.learner import Learner, Update
from rlm_core.grpo.state import TrainingState, best_folder, load_checkpoint, save_checkpoint, save_validation
from rlm_core.grpo.validation import evaluate
from rlm_core.grpo.weights import turn_samples
from rlm_core.params import GrpoParams
from rlm_core.progress import Progress
from rlm_core.records import Judgement, Query, Rollout
from rlm_core.rewards import Judge

log = logging.getLogger("rlm.grpo")


@dataclass(frozen=True, slots=True)
class StepLog:
    """What a step hands to whoever keeps logs."""

    step: int
    """Updates before this one; for an evaluation, those that its weights had seen."""
    figures: dict[str, float]
    rollouts: list[Rollout]
    judgements: list[Judgement | None]
    kind: Literal["train", "val"] = "train"
    """`val`: an evaluation on validation queries."""


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
    """For checkpoints and the best weights; `state.py` says what lies in it."""
    save_best: Callable[[Any, Path], None]
    """Writes the model's weights to a folder, whole or not at all."""
    on_log: Callable[[StepLog], None] = lambda log: None
    on_start: Callable[[TrainingState], None] = lambda state: None
    """Given what was finished before, before anything else is done: a kill may have come between a save and its log."""
    guard_judge: Judge | None = None
    """Judges beside `judge`, and is never trained on."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Kept in every checkpoint, e.g. the id of the tracking run."""
    _served: Served = field(default=Served(0, 0), init=False)
    _ahead: Batch | None = field(default=None, init=False)
    """Rolled out while the last step trained."""
    _pending: list[StepLog] = field(default_factory=list, init=False)
    """Steps that no checkpoint holds yet."""
    _save_seconds: float = field(default=0.0, init=False)
    """Of the last checkpoint and its log; a step's figures tell those of the step before."""

    async def run(self) -> TrainingState:
        """Train from the newest checkpoint until the steps are done, the token budget is spent or patience ends."""
        if not self.queries:
            raise ValueError("no training queries")
        state = await self._take_up()
        with Progress("grpo", self.config.steps, "steps", done=state.step, every_seconds=0) as progress:
            while not self._is_over(state):
                await self.validate(state)
                if self._is_over(state):
                    break
                await self.train_step(state)
                progress.advance(note=_note(state.curve[-1]))
        await self.validate(state)
        if self._pending:  # patience ended between two checkpoints
            self._save(state)
        return state

    async def train_step(self, state: TrainingState) -> None:
        """One batch of rollouts, one update, one checkpoint."""
        clock, step = _Clock(), state.step
        batch = self._ahead or await self._collector.collect(step, state.position, self._served)
        expected = step if self._ahead is None else step - 1
        if batch.policy_step != expected:
            raise RuntimeError(
                f"step {step}: rollouts of the weights after {batch.policy_step} updates, not {expected}"
            )
        clock.lap("seconds_wait")
        async with self._next_batch(state, batch) as following:
            samples = turn_samples(batch.rollouts, batch.advantages, self.config)
            if following is None:
                update = self.learner.update(samples, step)
            else:
                update = await asyncio.to_thread(self.learner.update, samples, step)
            clock.lap("seconds_train")
            _check_finite(update, step)
            self._ahead = await following if following else None
        clock.lap("seconds_wait")
        await self._publish(step + 1)
        clock.lap("seconds_publish")
        figures = {**fig.batch_figures(batch), **fig.update_figures(update), **clock.laps}
        figures |= {"seconds_step": sum(clock.laps.values()), "policy_lag": float(step - batch.policy_step)}
        figures["seconds_save"] = self._save_seconds
        self._finish(state, batch, figures | fig.per_second(figures))

    async def validate(self, state: TrainingState) -> None:
        """Evaluate where the schedule says so: every so many steps, before the first update and after the last."""
        every = self.config.eval_every
        due = every and (state.step % every == 0 or self._is_over(state))
        if not due or not self.validation or state.was_evaluated(state.step):
            return
        evaluation = await evaluate(self._collector, self.validation)
        state.validation.append({"step": state.step, **evaluation.figures})
        if state.best_step == state.step:
            self.save_best(self.learner.served, best_folder(self.folder, state.step))
        save_validation(self.folder, state)
        self.on_log(StepLog(state.step, evaluation.figures, evaluation.rollouts, evaluation.judgements, kind="val"))
        if self._is_out_of_patience(state):
            log.info("no better validation reward than that of step %s for %d evaluations: training ends",
                     state.best_step, state.evaluations_since_best)  # fmt: skip

    async def _take_up(self) -> TrainingState:
        """What was finished before; the actor then samples from the weights that it ended with."""
        state, ahead = load_checkpoint(self.folder, self.learner)
        self._ahead = Batch.from_dict(ahead, self.queries) if ahead else None
        self._served = Served(self.actor.version, 0)
        if state.step:
            await self._publish(state.step)
        self.on_start(state)
        return state

    @property
    def _collector(self) -> Collector:
        return Collector(self.actor, self.judge, self.queries, self.config, self.seed, self.guard_judge)

    async def _publish(self, step: int) -> None:
        self._served = Served(await self.actor.publish(self.learner.served), step)

    @contextlib.asynccontextmanager
    async def _next_batch(self, state: TrainingState, batch: Batch) -> AsyncIterator[asyncio.Task[Batch] | None]:
        """The next batch being rolled out meanwhile, by the weights before the update; None when there is none to be."""
        if not self.config.ahead or self._is_last(state, batch):
            yield None
            return
        task = asyncio.create_task(self._collector.collect(state.step + 1, batch.position, self._served))
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _finish(self, state: TrainingState, batch: Batch, figures: dict[str, float]) -> None:
        """Count the step, save where the schedule says so, and log what is saved."""
        step, before = state.step, _parted(state.curve)
        state.curve.append({"step": step, **figures})
        parted = parted_guards(state.curve, steps=self.config.steps)
        figures["guards_parted"] = state.curve[-1]["guards_parted"] = float(len(parted))
        state.step, state.position = step + 1, batch.position
        self._pending.append(StepLog(step, figures, batch.rollouts, batch.judgements))
        if state.step % self.config.save_every == 0 or self._is_over(state):
            self._save(state)
        if len(parted) > before:
            log.warning("the reward rises while %s, which it does not see, does not: the model may be learning to please "
                        "the judge; read some rollouts before you trust the reward", " and ".join(parted))  # fmt: skip

    def _save(self, state: TrainingState) -> None:
        clock, ahead = _Clock(), self._ahead.to_dict() if self._ahead else None
        save_checkpoint(self.folder, self.learner, state, self.extra, ahead)
        for entry in self._pending:
            self.on_log(entry)
        self._pending.clear()
        clock.lap("seconds_save")
        self._save_seconds = clock.laps["seconds_save"]

    def _is_over(self, state: TrainingState) -> bool:
        limit = self.config.max_sampled_tokens
        spent = limit is not None and _sampled_tokens(state) >= limit
        return spent or state.step >= self.config.steps or self._is_out_of_patience(state)

    def _is_last(self, state: TrainingState, batch: Batch) -> bool:
        """Whether training ends with this batch."""
        limit = self.config.max_sampled_tokens
        tokens = _sampled_tokens(state) + fig.batch_figures(batch)["completion_tokens"]
        return state.step + 1 >= self.config.steps or (limit is not None and tokens >= limit)

    def _is_out_of_patience(self, state: TrainingState) -> bool:
        patience = self.config.patience
        return patience is not None and state.evaluations_since_best >= patience


def _check_finite(update: Update, step: int) -> None:
    """Weights that an infinite gradient has spoilt are never served and never saved."""
    if not (math.isfinite(update.grad_norm) and math.isfinite(update.report.loss)):
        raise FloatingPointError(
            f"step {step}: loss {update.report.loss}, gradient norm {update.grad_norm}: training has diverged. Its last "
            "checkpoint is sound; lower grpo.lr or set model.dtype: float32 (either begins the stage anew)"
        )


def _sampled_tokens(state: TrainingState) -> float:
    return sum(row["completion_tokens"] for row in state.curve)


def _parted(curve: Sequence[dict[str, float]]) -> float:
    return curve[-1].get("guards_parted", 0.0) if curve else 0.0


def _note(figures: dict[str, float]) -> str:
    parts = [f"{k.removesuffix('_mean')} {figures[k]:.3g}" for k in _SHOWN if k in figures]
    return ", ".join(parts)


_SHOWN = ("reward_mean", "evidence_f1", "answered_share", "groups", "dropped_groups", "grad_norm", "entropy",
          "seconds_rollout", "seconds_train")  # fmt: skip


class _Clock:
    """Seconds by what they were spent on."""

    def __init__(self) -> None:
        self._last = time.monotonic()
        self.laps: dict[str, float] = {}

    def lap(self, name: str) -> None:
        now = time.monotonic()
        self.laps[name] = self.laps.get(name, 0.0) + now - self._last
        self._last = now
