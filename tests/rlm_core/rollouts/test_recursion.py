"""Children: order, isolation, depth, budgets, deadlocks, cancellation. Real REPLs, a scripted model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import psutil
import pytest

from rlm_core.policies.base import PolicyError
from rlm_core.records import ErrorClass, Query, Rollout, Status
from rlm_core.repl import forkserver
from rlm_core.rollouts import Job, RolloutConfig, failures, run_rollout, run_rollouts
from rlm_core.rollouts.contexts import child_context, pair_up

MakeScript = Callable[..., Any]
CONFIG = RolloutConfig(max_turns=4, wall_seconds=60)


def turn(code: str) -> str:
    """A completion that is one code block."""
    return f"```python\n{code}\n```"


async def test_a_batch_keeps_order_and_isolates_failures(make_script: MakeScript, query: Query) -> None:
    ask = 'answers = rlm_query_batched(["slow", "broken", "silent", "quick"])\nFINAL(answers)'
    policy = make_script(
        {
            "where?": [turn(ask)],
            "slow": [turn("import time; time.sleep(0.2)"), turn('FINAL(["s"])')],
            "broken": [PolicyError("connection refused")],
            "silent": [turn("x = 1")] * 5,
            "quick": [turn('FINAL({"a": 1})')],
        }
    )
    rollout = await run_rollout(query, policy, CONFIG)
    assert rollout.answer == [
        ["s"],
        {"error": "the child failed: PolicyError: connection refused"},
        {"error": "the child gave no answer within 5 turns"},
        {"a": 1},
    ]
    assert [c.id for c in rollout.children] == ["q.0.0", "q.0.1", "q.0.2", "q.0.3"]
    assert [c.status for c in rollout.children] == [
        Status.ANSWERED,
        Status.FAILED,
        Status.OUT_OF_TURNS,
        Status.ANSWERED,
    ]
    assert {c.parent_turn for c in rollout.children} == {0}
    assert failures(rollout) == ["q.0.1: PolicyError: connection refused"]
    assert rollout.status is Status.ANSWERED


async def test_children_of_a_batch_run_at_once(make_script: MakeScript, query: Query) -> None:
    policy = make_script(
        {"where?": [turn('FINAL(rlm_query_batched(["*"] * 6))')], "*": [turn("FINAL(1)")]}, seconds=0.2
    )
    rollout = await run_rollout(query, policy, CONFIG)
    assert rollout.answer == [1] * 6
    assert policy.most_at_once == 6


async def test_what_a_child_reads(make_script: MakeScript, query: Query) -> None:
    ask = """
ids = list(context)
several = rlm_query_batched(["ids"] * 6, ["alpha", ["alpha", "gamma"], "gamma: On gamma", {"k": 1}, "some text", None])
FINAL(several)"""
    policy = make_script(
        {"where?": [turn(ask)], "ids": [turn("FINAL(context if isinstance(context, str) else list(context))")]}
    )
    rollout = await run_rollout(query, policy, CONFIG)
    everything = ["alpha", "beta", "gamma"]
    assert rollout.answer == [["alpha"], ["alpha", "gamma"], ["gamma"], ["k"], "some text", everything]
    assert "alpha: On alpha" in rollout.children[0].opening[-1][1]


def test_prompts_and_contexts_pair_up() -> None:
    assert pair_up(["a", "b"], None) == [("a", None), ("b", None)]
    assert pair_up("same", ["x", "y"]) == [("same", "x"), ("same", "y")]
    assert pair_up(["a", "b"], "both") == [("a", "both"), ("b", "both")]
    with pytest.raises(ValueError, match="2 prompts but 1 contexts"):
        pair_up(["a", "b"], ["x"])


def test_ids_may_arrive_joined_and_a_mistyped_one_is_named(papers: dict[str, dict[str, str]]) -> None:
    assert list(child_context("alpha\n\ngamma: On gamma", papers)) == ["alpha", "gamma"]
    assert child_context("alpha is a letter", papers) == "alpha is a letter"
    with pytest.raises(ValueError, match="no paper 'delta'; the papers are alpha, beta, gamma"):
        child_context(["alpha", "delta"], papers)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ('rlm_query_batched(["a", "b"], ["alpha"])', "2 prompts but 1 contexts"),
        ('rlm_query("a", ["alpha", "delta"])', "no paper 'delta'"),
        ('rlm_query("a", 3)', "takes a text or a dict, got int"),
        ('rlm_query("")', "the prompt is empty"),
        ('rlm_query_batched(["a"] * 9)', "9 prompts in one call, at most 8 are allowed: split the list"),
    ],
)
async def test_a_wrong_call_raises_in_the_models_program(
    make_script: MakeScript, query: Query, call: str, message: str
) -> None:
    rollout = await run_rollout(query, make_script([turn(f"x = {call}"), turn("FINAL(1)")]), CONFIG)
    assert message in rollout.turns[0].observation
    assert rollout.children == ()
    assert rollout.answer == 1


async def test_three_levels_deep(make_script: MakeScript, query: Query) -> None:
    nest = {f"level {n}": [turn(f'below = rlm_query("level {n + 1}")\nFINAL([{n}] + below)')] for n in range(3)}
    policy = make_script({**nest, "level 3": [turn("FINAL([3])")]})
    rollout = await run_rollout(Query(id="q", question="level 0", context=query.context), policy, CONFIG)
    assert rollout.answer == [0, 1, 2, 3]
    assert [(n.id, n.parent_id, n.depth) for n in rollout.walk()] == [
        ("q.0", None, 0),
        ("q.0.0", "q.0", 1),
        ("q.0.0.0", "q.0.0", 2),
        ("q.0.0.0.0", "q.0.0.0", 3),
    ]
    assert rollout.usage.children == 3
    assert rollout.usage.model_calls == rollout.usage.turns == 4
    assert rollout.usage.completion_tokens == 40
    assert Rollout.from_dict(rollout.to_dict()) == rollout


async def test_the_depth_limit_is_a_message_to_act_on(make_script: MakeScript, query: Query) -> None:
    policy = make_script({"where?": [turn('x = rlm_query("part")'), turn("FINAL(0)")]})
    rollout = await run_rollout(query, policy, RolloutConfig(max_depth=0))
    assert rollout.turns[0].error is ErrorClass.BUDGET
    assert "no child RLM is allowed at this depth: solve it here" in rollout.turns[0].observation
    assert rollout.answer == 0
    assert rollout.provenance["budget_refusals"] == 1
    assert "rlm_query" not in rollout.opening[0][1]


async def test_the_trees_children_are_counted_before_they_start(make_script: MakeScript, query: Query) -> None:
    code = "found = []\nfor _ in range(5):\n    found += rlm_query_batched(['*', '*'])"
    policy = make_script({"where?": [turn(code), turn("FINAL(found)")], "*": [turn("FINAL(1)")]})
    rollout = await run_rollout(query, policy, RolloutConfig(max_children=5))
    assert len(rollout.children) == 4
    assert "1 sub-calls are left, 2 asked for" in rollout.turns[0].observation
    assert rollout.turns[0].error is ErrorClass.BUDGET
    assert rollout.answer == [1, 1, 1, 1]  # what was paid for before the refusal is still there


async def test_children_never_overshoot_the_trees_tokens(make_script: MakeScript, query: Query) -> None:
    policy = make_script(
        {"where?": [turn('FINAL(rlm_query_batched(["*"] * 4))')], "*": [turn("x = 1")] * 20}, tokens=10_000
    )
    config = RolloutConfig(max_turns=10, max_tokens=1000, max_tokens_per_turn=50)
    rollout = await run_rollout(query, policy, config)
    # the root's first turn took 50; 950 - 50 kept leave 900, 225 for each child: 3 turns of 50, one of 25, a last of 50
    assert [c.usage.completion_tokens for c in rollout.children] == [225] * 4
    assert rollout.usage.completion_tokens == 950
    assert {c.status for c in rollout.children} == {Status.OUT_OF_BUDGET}


async def test_plain_calls_are_counted_but_are_no_nodes(make_script: MakeScript, query: Query) -> None:
    code = 'one = llm_query("say one")\nmany = llm_query_batched(["say two", "break"])\nFINAL([one] + many)'
    policy = make_script(
        {"where?": [turn(code)], "say one": ["1"], "say two": ["2"], "break": [PolicyError("timeout")]}
    )
    rollout = await run_rollout(query, policy, CONFIG)
    assert rollout.answer == ["1", "2", {"error": "the model call failed: timeout"}]
    assert rollout.children == ()
    assert rollout.usage.model_calls == 3
    assert rollout.usage.completion_tokens == 30
    calls = rollout.provenance["calls"]
    assert [(c["turn"], c["prompt"], c.get("text")) for c in calls] == [
        (0, "say one", "1"),
        (0, "say two", "2"),
        (0, "break", None),
    ]
    assert failures(rollout) == ["q.0: llm_query: PolicyError: timeout"]


async def test_a_waiting_parent_holds_nothing_that_its_children_need(make_script: MakeScript, query: Query) -> None:
    """12 roots x 2 children x 2 grandchildren with one model call at once: a pool that parents block would never end."""
    scripts = {
        "where?": [turn('FINAL(rlm_query_batched(["middle"] * 2))')],
        "middle": [turn('FINAL(rlm_query_batched(["leaf"] * 2))')],
        "leaf": [turn("FINAL(1)")],
    }
    policy = make_script(scripts, seconds=0.001)
    jobs = [Job(query, sample) for sample in range(12)]
    done = run_rollouts(jobs, policy, CONFIG, concurrency=12, max_model_calls=1)
    rollouts = await asyncio.wait_for(done, timeout=50)
    assert [r.answer for r in rollouts] == [[[1, 1], [1, 1]]] * 12
    assert policy.most_at_once == 1
    assert len(policy.calls) == 12 * 7


async def test_time_out_reaches_every_descendant(make_script: MakeScript, query: Query) -> None:
    scripts = {
        "where?": [turn('x = rlm_query_batched(["middle"] * 2)'), turn("FINAL(x)")],
        "middle": [turn('FINAL(rlm_query("stuck"))'), turn("FINAL('late')")],
        "stuck": [turn("import time; time.sleep(60)")],
    }
    config = RolloutConfig(wall_seconds=6, block_seconds=60, max_turns=3)
    rollout = await asyncio.wait_for(run_rollout(query, make_script(scripts), config), timeout=20)
    stuck = [node for node in rollout.walk() if node.depth == 2]
    assert [node.status for node in stuck] == [Status.OUT_OF_BUDGET] * 2
    # grandchildren end first, so that their parents have time for one last call, and the root for a turn of its own
    assert "the child gave no answer within its budget" in rollout.children[0].turns[0].observation
    assert [c.turns[1].cue for c in rollout.children] == ["The time is up. Answer now with FINAL(...)."] * 2
    assert rollout.answer == ["late", "late"]
    assert rollout.usage.wall_seconds < 7
    # a turn that was cut off while its code ran is counted too
    assert all(node.usage.turns == sum(len(n.turns) for n in node.walk()) for node in rollout.walk())
    assert workers() == []


async def test_cancellation_reaches_every_descendant(make_script: MakeScript, query: Query) -> None:
    scripts = {"where?": [turn('x = rlm_query_batched(["stuck"] * 3)')], "stuck": [turn("while True: pass")]}
    started = asyncio.Event()
    seen: list[str] = []

    def watch(event: Any) -> None:
        seen.append(event.kind)
        if seen.count("action") == 4:
            started.set()

    task = asyncio.create_task(run_rollout(query, make_script(scripts), CONFIG, observer=watch))
    await asyncio.wait_for(started.wait(), 20)
    await asyncio.sleep(0.2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, timeout=10)
    assert seen.count("node_end") == 4
    assert workers() == []
    assert [t for t in asyncio.all_tasks() if t.get_name().startswith("rollout ")] == []


@pytest.mark.parametrize("busy", [True, False], ids=["children run code", "the model is asked"])
async def test_cancelling_again_and_again_leaves_no_worker(make_script: MakeScript, query: Query, busy: bool) -> None:
    """Each cancellation hits another step of what the one before it began."""
    ask = turn('x = rlm_query_batched(["stuck"] * 2)')
    policy = make_script({"where?": [ask], "stuck": [turn("while True: pass")]}, seconds=0.0 if busy else 30.0)
    task = asyncio.create_task(run_rollout(query, policy, CONFIG))
    async with asyncio.timeout(20):
        while min(len(workers()), len(policy.calls)) < (3 if busy else 1):  # noqa: ASYNC110 - processes tell nobody
            await asyncio.sleep(0.02)
    while not task.done():
        task.cancel()
        await asyncio.sleep(0)
    assert task.cancelled()
    assert workers() == []


async def test_children_can_be_played_by_another_policy(make_script: MakeScript, query: Query) -> None:
    root = make_script([turn('FINAL(rlm_query("part"))')])
    frozen = make_script({"part": [turn("FINAL('frozen')")]})
    rollout = await run_rollout(query, root, CONFIG, child_policy=frozen)
    assert rollout.answer == "frozen"
    assert (len(root.calls), len(frozen.calls)) == (1, 1)


def workers() -> list[psutil.Process]:
    """The REPL workers of this process: children of the fork server's inner process."""
    server = psutil.Process(forkserver.get(sandbox=True).pid)
    return [worker for first in server.children() for worker in first.children()]
