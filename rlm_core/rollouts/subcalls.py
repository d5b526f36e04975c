"""Serves a node's sub-calls: plain model calls (`llm_query`) and children with a REPL of their own (`rlm_query`).

Everything is paid for before it is dispatched. A batched call runs its items at once, keeps their order, and puts
`{"error": why}` into the slot of one that failed. A refusal is raised in the model's program as an exception whose message
says what to do instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from rlm_core.policies.base import Message, PolicyError, PromptTooLong
from rlm_core.prompts import Allowance, opening
from rlm_core.prompts.style import Task
from rlm_core.repl import SubcallError
from rlm_core.rollouts.budget import BudgetSpent
from rlm_core.rollouts.contexts import check_prompts, child_context, pair_up
from rlm_core.rollouts.node import Node
from rlm_core.rollouts.tree import Tree, derive_seed

RunNode = Callable[[Tree, Node], Coroutine[Any, Any, None]]

_PROMPT_CHARS_KEPT = 1000


class Subcalls:
    """The handler that a node's REPL calls; `run_node` is handed in, since nodes run their children the same way."""

    def __init__(self, tree: Tree, node: Node, run_node: RunNode) -> None:
        self._tree, self._node, self._run_node = tree, node, run_node

    async def __call__(self, name: str, args: Mapping[str, Any]) -> Any:
        try:
            return await self._serve(name, args)
        except BudgetSpent as refusal:
            self._node.refusals += 1
            raise SubcallError(f"{name}: {refusal}") from None
        except ValueError as mistake:
            raise SubcallError(f"{name}: {mistake}") from None

    async def _serve(self, name: str, args: Mapping[str, Any]) -> Any:
        match name:
            case "rlm_query":
                prompt = check_prompts([args.get("prompt")])[0]
                return _one(name, await self._children([(prompt, args.get("context"))]))
            case "rlm_query_batched":
                return await self._children(pair_up(args.get("prompts"), args.get("contexts")))
            case "llm_query":
                return _one(name, await self._plain_calls(check_prompts([args.get("prompt")])))
            case "llm_query_batched":
                prompts = args.get("prompts")
                return await self._plain_calls(check_prompts([prompts] if isinstance(prompts, str) else prompts))
        raise SubcallError(f"unknown sub-call {name!r}")

    def _check_size(self, count: int) -> None:
        limit = self._tree.config.max_children_per_call
        if limit == 0:
            raise BudgetSpent("no sub-calls are allowed: go on with your own code")
        if count > limit:
            raise BudgetSpent(f"{count} prompts in one call, at most {limit} are allowed: split the list")

    async def _children(self, pairs: Sequence[tuple[str, Any]]) -> list[Any]:
        node, tree = self._node, self._tree
        if not pairs:
            return []
        self._check_size(len(pairs))
        contexts = [child_context(context, node.task.context) for _, context in pairs]
        budgets = node.budget.split(len(pairs), now=tree.now())
        children = []
        for (prompt, _), context, budget in zip(pairs, contexts, budgets, strict=True):
            task = Task(prompt, context, is_child=True)
            child = Node(
                id=f"{node.id}.{len(node.children)}",
                task=task,
                budget=budget,
                query_id=node.query_id,
                parent_id=node.id,
                depth=node.depth + 1,
                parent_turn=len(node.turns) - 1,
                opening=opening(task, tree.config.style, Allowance(budget.subcalls, budget.depth_left)),
            )
            node.children.append(child)
            children.append(child)
        try:
            async with asyncio.TaskGroup() as group:
                for child in children:
                    group.create_task(self._run_node(tree, child), name=f"rollout {child.id}")
        finally:
            for child in children:
                node.budget.take_back(child.budget)
        return [child.as_slot() for child in children]

    async def _plain_calls(self, prompts: Sequence[str]) -> list[Any]:
        node = self._node
        if not prompts:
            return []
        self._check_size(len(prompts))
        granted = node.budget.reserve_calls(len(prompts))
        records = [{"turn": len(node.turns) - 1, "prompt": prompt[:_PROMPT_CHARS_KEPT]} for prompt in prompts]
        first = len(node.calls)
        node.calls.extend(records)
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._plain_call(prompt, granted, record, first + i))
                for i, (prompt, record) in enumerate(zip(prompts, records, strict=True))
            ]
        return [task.result() for task in tasks]

    async def _plain_call(self, prompt: str, granted: int, record: dict[str, Any], number: int) -> Any:
        node, tree = self._node, self._tree
        used = 0
        seed = derive_seed(tree.config.seed, node.id, "call", number)
        try:
            action, seconds = await tree.act(
                [Message("user", prompt)], depth=node.depth + 1, max_tokens=granted, seed=seed
            )
        except PromptTooLong as error:
            record["error"] = str(error)
            return {"error": f"the prompt of {len(prompt)} characters is too long for the model: give it less"}
        except PolicyError as error:
            record["failure"] = f"{type(error).__name__}: {error}"
            return {"error": f"the model call failed: {error}"}
        else:
            used = action.completion_tokens or len(action.completion_ids)
            read = action.prompt_tokens or len(action.prompt_ids)
            node.spend(prompt_tokens=read, completion_tokens=used, model_calls=1, model_seconds=seconds)
            record |= {
                "text": action.text,
                "prompt_tokens": read,
                "completion_tokens": used,
                "seconds": round(seconds, 3),
            }
            tree.emit("call", node, turn=len(node.turns) - 1, text=action.text)
            return action.text
        finally:
            node.budget.settle(granted, used)


def _one(name: str, slots: Sequence[Any]) -> Any:
    """The only slot of a call that was not batched; a failure is raised in the model's program."""
    (slot,) = slots
    if isinstance(slot, dict) and set(slot) == {"error"}:
        raise SubcallError(f"{name}: {slot['error']}")
    return slot
