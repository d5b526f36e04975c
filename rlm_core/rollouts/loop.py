"""The recursive loop: one node from its opening messages to its answer, turn by turn; and `run_rollout`, a whole tree.

A turn: the policy reads the messages and the cue; its code blocks run in the node's own REPL; it is shown what they printed.
It ends with FINAL / FINAL_VAR, called in code or written as text in a turn without code. What a model does wrong is an
observation that it can act on; what the harness does wrong (endpoint, sandbox) fails the node, and never looks like an answer.
"""

from __future__ import annotations

import asyncio
import dataclasses

from rlm_core.policies.base import Action, Policy, PolicyError, PromptTooLong, policy_name
from rlm_core.prompts import Allowance, Task, build_messages, cue, last_cue, opening
from rlm_core.prompts import feedback as say
from rlm_core.protocol import parse_turn
from rlm_core.records import ErrorClass, Query, Rollout, Status, Turn
from rlm_core.repl import shared_context
from rlm_core.rollouts.budget import Budget
from rlm_core.rollouts.config import RolloutConfig
from rlm_core.rollouts.events import Observer
from rlm_core.rollouts.execution import Outcome, run_blocks, take_text_answer
from rlm_core.rollouts.node import Node
from rlm_core.rollouts.subcalls import Subcalls
from rlm_core.rollouts.tree import Tree, derive_seed
from rlm_core.rollouts.worker import Worker, WorkerFailure

LAST_TURN_TIME_SHARE = 0.1
"""Of a node's time that is kept for its last call for an answer."""


async def run_rollout(
    query: Query | str,
    policy: Policy,
    config: RolloutConfig | None = None,
    *,
    sample: int = 0,
    child_policy: Policy | None = None,
    gate: asyncio.Semaphore | None = None,
    observer: Observer | None = None,
) -> Rollout:
    """Run one rollout tree and return it, whatever happened in it; only cancellation raises.

    A `str` is a question without a context. `sample` tells apart several trees of one query: it is in their ids, and so in
    their seeds. `child_policy` acts below the root; `gate` bounds model calls at once. The context must not change meanwhile.
    """
    config = config or RolloutConfig()
    if isinstance(query, str):
        query = Query(id="query", question=query, context="")
    tree = Tree(policy, config, child_policy, gate, observer)
    budget = Budget.of_tree(
        max_tokens=config.max_tokens,
        max_subcalls=config.max_children if config.max_depth and config.max_children_per_call else 0,
        max_depth=config.max_depth,
        tokens_per_turn=config.max_tokens_per_turn,
        deadline=tree.now() + config.wall_seconds,
    )
    task = Task(query.question, "" if query.context is None else query.context)
    messages = opening(task, config.style, Allowance(budget.subcalls, budget.depth_left))
    root = Node(id=f"{query.id}.{sample}", task=task, budget=budget, query_id=query.id, opening=messages)
    with shared_context(task.context):
        await run_node(tree, root)
    provenance = {"sample": sample, "config": config.shape}
    return root.freeze(cue_kept=config.cue_kept, policy=policy_name(policy), provenance=provenance)


async def run_node(tree: Tree, node: Node, worker: Worker | None = None) -> None:
    """Run a node to its end and leave the result in it. Closes its REPL and its children's in any case.

    `worker`: a REPL other than the node's usual one, as baselines need.
    """
    start = tree.now()
    tree.emit("node_start", node, text=node.task.question)
    worker = worker or Worker.start(node.task.context, tree.config, Subcalls(tree, node, run_node))
    try:
        async with asyncio.timeout_at(node.budget.deadline):
            await _take_turns(tree, node, worker)
    except TimeoutError:  # the deadline's own: what a policy or a worker raises is wrapped where it is called
        node.status, node.failure = Status.OUT_OF_BUDGET, "the time is up"
        _mark_last_turn(node, ErrorClass.BUDGET)
    except (PolicyError, WorkerFailure) as error:
        node.status, node.failure = Status.FAILED, f"{type(error).__name__}: {error}"
    finally:
        await worker.close()
        node.usage = dataclasses.replace(node.usage, wall_seconds=tree.now() - start)
        data = {"answer": node.answer, "status": node.status, "failure": node.failure, "usage": node.usage}
        tree.emit("node_end", node, turn=len(node.turns), data=data)


async def _take_turns(tree: Tree, node: Node, worker: Worker) -> None:
    """Turns until an answer; when turns, tokens, time or the model's context are used up, one last call for an answer."""
    config, budget = tree.config, node.budget
    last_turn_from = budget.deadline - LAST_TURN_TIME_SHARE * budget.seconds_left(tree.now())
    for index in range(config.max_turns):
        if budget.turn_tokens() == 0:
            return await _last_call(tree, node, worker, "tokens", Status.OUT_OF_BUDGET)
        if tree.now() > last_turn_from:
            return await _last_call(tree, node, worker, "time", Status.OUT_OF_BUDGET)
        try:
            await _turn(tree, node, worker, cue(index, config.max_turns))
        except PromptTooLong as error:
            return await _last_call_of_shorter(tree, node, worker, error)
        if node.has_answer:
            return None
    return await _last_call(tree, node, worker, "turns", Status.OUT_OF_TURNS)


async def _last_call(tree: Tree, node: Node, worker: Worker, reason: say.Reason, status: Status) -> None:
    """One more turn for an answer; the status says that it came late, and `answer` may stay None."""
    node.status = status
    if node.budget.turn_tokens(last=True) == 0:
        return
    try:
        await _turn(tree, node, worker, last_cue(reason), last=True, status=status)
    except PromptTooLong as error:
        if reason == "length" or not node.turns:
            node.status, node.failure = Status.OUT_OF_BUDGET, str(error)
        else:
            await _last_call_of_shorter(tree, node, worker, error)


async def _last_call_of_shorter(tree: Tree, node: Node, worker: Worker, error: PromptTooLong) -> None:
    """The prompt does not fit: drop the newest observation, which no turn has read yet, and ask for an answer."""
    if not node.turns:
        node.status, node.failure = Status.OUT_OF_BUDGET, str(error)
        return
    node.turns[-1] = dataclasses.replace(node.turns[-1], observation=say.REMOVED)
    await _last_call(tree, node, worker, "length", Status.OUT_OF_BUDGET)


async def _turn(
    tree: Tree, node: Node, worker: Worker, turn_cue: str, *, last: bool = False, status: Status = Status.ANSWERED
) -> None:
    """One policy call and what follows from it. `status`: that of a node which answers in this turn."""
    index = len(node.turns)
    action, seconds, granted = await _act(tree, node, turn_cue, last=last)
    cut = action.finish_reason == "length"
    node.turns.append(
        Turn(
            text=action.text,
            prompt_ids=action.prompt_ids,
            completion_ids=action.completion_ids,
            logprobs=action.logprobs,
            cue=turn_cue,
            error=ErrorClass.LENGTH if cut else ErrorClass.NONE,
            finish_reason=action.finish_reason,
            model_seconds=seconds,
            weights_version=action.weights_version,
        )
    )
    node.spend(turns=1)
    outcome = await _follow(tree, node, worker, action.text, cut=cut, last=last)
    observation = outcome.observation
    if cut and not outcome.has_answer:
        observation = f"{observation}\n{say.cut_off(granted)}"
    node.spend(repl_seconds=outcome.seconds)
    if outcome.has_answer:
        node.record_answer(outcome.answer, status)
        observation = ""
    node.turns[index] = dataclasses.replace(
        node.turns[index],
        observation=observation,
        error=ErrorClass.LENGTH if cut else outcome.error,
        repl_seconds=outcome.seconds,
    )
    tree.emit("observation", node, turn=index, text=observation, data=outcome.error)


async def _act(tree: Tree, node: Node, turn_cue: str, *, last: bool) -> tuple[Action, float, int]:
    """Reserve the turn's tokens, ask the policy, settle. Returns the action, its seconds and the tokens it was granted."""
    config, index = tree.config, len(node.turns)
    messages = build_messages(node.opening, node.turns, turn_cue, cue_kept=config.cue_kept)
    granted = node.budget.reserve_turn(last=last)
    used = 0
    tree.emit("cue", node, turn=index, text=turn_cue)
    try:
        seed = derive_seed(config.seed, node.id, index)
        action, seconds = await tree.act(messages, depth=node.depth, max_tokens=granted, seed=seed)
        used = action.completion_tokens or len(action.completion_ids)
    finally:
        node.budget.settle(granted, used)
    read = action.prompt_tokens or len(action.prompt_ids)
    node.spend(prompt_tokens=read, completion_tokens=used, model_calls=1, model_seconds=seconds)
    tree.emit("action", node, turn=index, text=action.text)
    return action, seconds, granted


async def _follow(tree: Tree, node: Node, worker: Worker, text: str, *, cut: bool, last: bool) -> Outcome:
    """Run the turn's code (not a block that was cut in the middle), or take its text answer, or say what is missing."""
    parsed = parse_turn(text)
    blocks = parsed.code_blocks
    if cut and parsed.unclosed and blocks and text.rstrip().endswith(blocks[-1].rstrip()):
        blocks = blocks[:-1]
    if blocks:
        refusals = node.refusals
        outcome = await run_blocks(worker, blocks, output_chars=tree.config.output_chars)
        node.has_run_code = True
        if outcome.error in (ErrorClass.CODE, ErrorClass.BUDGET):  # a sub-call refused for another reason is wrong code
            refused = node.refusals > refusals
            outcome = dataclasses.replace(outcome, error=ErrorClass.BUDGET if refused else ErrorClass.CODE)
        return outcome
    if parsed.final is None:
        problems = "\n".join(f"Error: {problem}" for problem in parsed.errors)
        return Outcome(observation=problems or say.NO_CODE, error=ErrorClass.FORMAT)
    if not node.has_run_code and not last:
        return Outcome(observation=say.TOO_EARLY, error=ErrorClass.ANSWER)
    return await take_text_answer(worker, parsed.final)


def _mark_last_turn(node: Node, error: ErrorClass) -> None:
    """A turn that was cut off while its code ran says so."""
    if node.turns and not node.turns[-1].observation and node.turns[-1].error is ErrorClass.NONE:
        node.turns[-1] = dataclasses.replace(node.turns[-1], error=error)
