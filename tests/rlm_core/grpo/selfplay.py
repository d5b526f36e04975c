"""A whole training run on a tiny model that samples for itself.

`python selfplay.py FOLDER PLACE NUMBER AHEAD` runs one that kills itself with -9 at the NUMBER-th call of PLACE (`trip`
lists them); its log lines are in FOLDER/log.jsonl, one for each StepLog.
"""

from __future__ import annotations

import asyncio
import copy
import json
import os
import random
import runpy
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from rlm_core.grpo import loop
from rlm_core.grpo.learner import Learner
from rlm_core.grpo.loop import StepLog, Training
from rlm_core.grpo.state import TrainingState
from rlm_core.params import GrpoParams
from rlm_core.records import Evidence, Judgement, Query, Rollout, Turn
from rlm_core.rewards import JudgeError

build_model = runpy.run_path(str(Path(__file__).with_name("conftest.py")))["build_model"]

QUERIES = [
    Query(f"q{i}", f"question {i}?", kind="multi" if i % 3 == 0 else "single", evidence=(Evidence("p", "gold"),))
    for i in range(7)
]
WANTED = 9
"""The token that earns reward."""


class SelfActor:
    """Samples two-turn trees with one child from a copy of the newest weights, as a server would."""

    def __init__(self, model: Any) -> None:
        self.version = 0
        self.model = copy.deepcopy(model)
        self.asked: list[tuple[list[str], int, float | None]] = []
        """Query ids, samples and temperature of each roll-out."""

    async def publish(self, model: Any) -> int:
        self.model.load_state_dict(model.state_dict())
        self.version += 1
        return self.version

    async def roll_out(
        self, queries: Sequence[Query], *, samples: int, seed: int, temperature: float | None = None
    ) -> list[Rollout]:
        self.asked.append(([q.id for q in queries], samples, temperature))
        at = 1.0 if temperature is None else temperature
        trees = []
        for query in queries:
            for sample in range(samples):
                await asyncio.sleep(0)  # others may run here, as they do while a server answers
                trees.append(self.tree(query, sample, random.Random(f"{seed}.{query.id}.{sample}"), at))
        return trees

    def tree(self, query: Query, sample: int, rng: random.Random, temperature: float) -> Rollout:
        start = (3, 4, 10 + int(query.id[1:]))
        first = self.turn(start, rng, temperature)
        child = Rollout(f"{query.id}.{sample}.0", depth=1, turns=(self.turn((5, *start), rng, temperature),))
        second = self.turn((*start, *first.completion_ids, 6), rng, temperature)
        answer = [*first.completion_ids, *second.completion_ids, *child.turns[0].completion_ids]
        return Rollout(
            f"{query.id}.{sample}", query_id=query.id, turns=(first, second), children=(child,), answer=answer
        )

    @torch.no_grad()
    def turn(self, prompt: tuple[int, ...], rng: random.Random, temperature: float) -> Turn:
        generator = torch.Generator().manual_seed(rng.randrange(2**31))
        version, ids, logprobs = self.version, [], []
        for _ in range(3):
            logits = self.model(torch.tensor([[*prompt, *ids]])).logits[0, -1].float()
            logp = (logits / (temperature or 1e-4)).log_softmax(-1)
            token = int(torch.multinomial(logp.exp(), 1, generator=generator))
            ids.append(token)
            logprobs.append(logp[token].item())
        return Turn(
            "x", prompt_ids=prompt, completion_ids=tuple(ids), logprobs=tuple(logprobs), weights_version=version
        )


class CountingJudge:
    name = "counting"

    def __init__(self, fails_on: str = "", equal_on: str = "") -> None:
        self.fails_on, self.equal_on = fails_on, equal_on

    async def score(self, question: str, predicted: Any, gold: Any) -> Judgement:
        if self.fails_on and self.fails_on in question:
            raise JudgeError("out of order")
        if self.equal_on and self.equal_on in question:
            return Judgement(5, 5, 0.5, judge="counting")
        return Judgement(5, 5, self.reward(predicted), judge="counting")

    def reward(self, predicted: Any) -> float:
        return float(predicted.count(WANTED) / len(predicted))


class HashingJudge(CountingJudge):
    """No two answers have the same reward, so that every group gives signal."""

    def reward(self, predicted: Any) -> float:
        return float(random.Random(str(predicted)).random())


def save_weights(model: Any, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    torch.save(model.state_dict(), folder / "weights.pt")


def make_training(folder: Path, logs: list[StepLog] | None = None, **fields: Any) -> Training:
    config = {"steps": 4, "queries_per_step": 2, "rollouts_per_query": 4, "lr": 3e-3, "warmup_steps": 0, "eval_every": 2,
              "eval_queries": 2, "eval_samples": 2, "eval_temperatures": [], "refill": 0, **fields}  # fmt: skip
    model = build_model("llama")
    return Training(
        learner=Learner(model, GrpoParams.model_validate(config)),
        actor=SelfActor(model),
        judge=CountingJudge(),
        queries=QUERIES[:4],
        validation=QUERIES[4:],
        config=GrpoParams.model_validate(config),
        seed=1,
        folder=folder,
        save_best=save_weights,
        on_log=(logs if logs is not None else []).append,
    )


Point = tuple[str, int]
"""Kind and step of a StepLog."""


def logged_once(training: Training, points: list[Point]) -> None:
    """Log as the stage does: what `points` lacks of a state taken up, then every new entry."""

    def backfill(state: TrainingState) -> None:
        known = [("train", row["step"]) for row in state.curve] + [("val", row["step"]) for row in state.validation]
        points.extend((kind, int(step)) for kind, step in known if (kind, int(step)) not in points)

    training.on_start = backfill
    training.on_log = lambda entry: points.append((entry.kind, entry.step))


def trip(
    training: Training, place: str, number: int, strike: Callable[[], None], patch: Callable[..., None] = setattr
) -> None:
    """Call `strike` at the `number`-th call of a place, before it does its work or, for `X after`, behind it."""
    calls = 0

    def wrap(function: Any, after: bool) -> Any:
        def count() -> None:
            nonlocal calls
            calls += 1
            if calls == number:
                strike()

        def tripping(*arguments: Any, **options: Any) -> Any:
            if not after:
                count()
            result = function(*arguments, **options)
            if after:
                count()
            return result

        return tripping

    name, _, after = place.partition(" ")
    owners = {"roll_out": training.actor, "publish": training.actor, "score": training.judge, "update": training.learner,
              "save_best": training, "on_log": training, "save_checkpoint": loop, "save_validation": loop,
              "rename": Path}  # fmt: skip
    patch(owners[name], name, wrap(getattr(owners[name], name), bool(after)))


def main(folder: Path, place: str, number: int, ahead: int) -> None:
    torch.set_num_threads(1)
    training = make_training(folder, ahead=ahead)
    log = folder / "log.jsonl"
    points = [tuple(json.loads(line)) for line in log.read_text().splitlines()] if log.exists() else []

    class Kept(list[Point]):
        def append(self, point: Point) -> None:
            super().append(point)
            with open(log, "a") as out:
                out.write(json.dumps(point) + "\n")

        def extend(self, new: Any) -> None:
            for point in new:
                self.append(point)

    kept = Kept(points)  # type: ignore[arg-type]
    logged_once(training, kept)
    if number:
        trip(training, place, number, lambda: os.kill(os.getpid(), signal.SIGKILL))
    asyncio.run(training.run())


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
