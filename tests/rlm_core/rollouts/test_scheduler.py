"""Many trees at once: order of results, delivery as they finish, determinism, failures, cancellation."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from rlm_core.policies.base import Action, Message, PolicyError, Sampling
from rlm_core.records import Query, Rollout, Status
from rlm_core.rollouts import Job, RolloutConfig, run_rollouts

MakeScript = Callable[..., Any]
CONFIG = RolloutConfig(max_turns=4, wall_seconds=60, seed=3)


def turn(code: str) -> str:
    """A completion that is one code block."""
    return f"```python\n{code}\n```"


class Dice:
    """Acts by the seed of each call only, and takes a random time over it, so that the order of work differs every run."""

    name = "dice"

    async def act(self, messages: Sequence[Message], sampling: Sampling) -> Action:
        await asyncio.sleep(random.random() * 0.05)
        rng = random.Random(sampling.seed)
        child = "another model" in messages[0].content
        if child or rng.random() < 0.5:
            return Action(turn(f"FINAL({rng.randrange(1000)})"), completion_tokens=9)
        count = rng.randrange(1, 4)
        return Action(turn(f'x = rlm_query_batched(["part"] * {count})\nprint(x)'), completion_tokens=9)


def outline(node: Rollout) -> Any:
    """A tree without its times."""
    texts = [(t.text, t.observation, t.cue, t.error) for t in node.turns]
    return (
        node.id,
        node.parent_turn,
        node.opening,
        texts,
        node.answer,
        node.status,
        [outline(c) for c in node.children],
    )


async def test_results_do_not_depend_on_the_order_of_work(query: Query) -> None:
    runs = []
    for concurrency in (1, 3, 16):
        rollouts = await run_rollouts([query], Dice(), CONFIG, samples=8, concurrency=concurrency)
        runs.append([outline(r) for r in rollouts])
    assert runs[0] == runs[1] == runs[2]
    assert len({str(outline) for outline in runs[0]}) == 8  # the samples differ
    other = await run_rollouts([query], Dice(), CONFIG, samples=8, seed=4)
    assert [outline(r) for r in other] != runs[0]


async def test_results_come_in_the_order_of_jobs_and_are_delivered_as_they_finish(make_script: MakeScript) -> None:
    queries = [Query(id=f"q{i}", question=f"wait {i}") for i in range(3)]
    scripts = {f"wait {i}": [turn(f"import time; time.sleep({(2 - i) * 0.3})\nFINAL({i})")] for i in range(3)}
    delivered: list[str] = []

    async def on_done(rollout: Rollout) -> None:
        delivered.append(rollout.id)

    rollouts = await run_rollouts(queries, make_script(scripts), CONFIG, on_done=on_done)
    assert [r.answer for r in rollouts] == [0, 1, 2]
    assert delivered == ["q2.0", "q1.0", "q0.0"]


async def test_samples_and_jobs_name_the_trees(make_script: MakeScript, query: Query) -> None:
    policy = make_script([turn("FINAL(1)")])
    assert [r.id for r in await run_rollouts([query], policy, CONFIG, samples=3)] == ["q.0", "q.1", "q.2"]
    assert [r.id for r in await run_rollouts([Job(query, 5), Job(query, 2)], policy, CONFIG)] == ["q.5", "q.2"]
    assert await run_rollouts([], policy, CONFIG) == []


async def test_concurrency_bounds_trees_and_a_gate_bounds_calls(make_script: MakeScript, query: Query) -> None:
    policy = make_script([turn("x = 1"), turn("FINAL(x)")], seconds=0.02)
    await run_rollouts([query], policy, CONFIG, samples=8, concurrency=3)
    assert policy.most_at_once == 3
    policy.most_at_once = 0
    await run_rollouts([query], policy, CONFIG, samples=8, concurrency=8, max_model_calls=2)
    assert policy.most_at_once == 2


async def test_a_failed_tree_is_a_result_and_leaves_the_others_alone(
    make_script: MakeScript, broken: PolicyError
) -> None:
    queries = [Query(id=str(i), question=f"q{i}") for i in range(3)]
    policy = make_script({"q0": [turn("FINAL(0)")], "q1": [broken], "q2": [turn("FINAL(2)")]})
    rollouts = await run_rollouts(queries, policy, CONFIG)
    assert [(r.status, r.answer) for r in rollouts] == [
        (Status.ANSWERED, 0),
        (Status.FAILED, None),
        (Status.ANSWERED, 2),
    ]


async def test_an_error_in_on_done_ends_them_all(make_script: MakeScript, query: Query) -> None:
    def full(rollout: Rollout) -> None:
        raise OSError("no space left on device")

    policy = make_script([turn("FINAL(1)")])
    with pytest.raises(OSError, match="no space left"):
        await run_rollouts([query], policy, CONFIG, samples=20, on_done=full, concurrency=2)
    assert len(policy.calls) <= 4
    assert [t for t in asyncio.all_tasks() if t.get_name().startswith("trees")] == []


async def test_a_thousand_trees_at_once(make_script: MakeScript) -> None:
    """Without code to run no worker is needed, but every tree is open at once."""
    queries = [Query(id=str(i), question="q") for i in range(1000)]
    policy = make_script(["no code", "still none"], seconds=0.2)
    config = RolloutConfig(max_turns=1)
    rollouts = await run_rollouts(queries, policy, config, concurrency=1000)
    assert {r.status for r in rollouts} == {Status.OUT_OF_TURNS}
    assert len(rollouts) == 1000
