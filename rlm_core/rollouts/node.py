"""A node while it runs: what it has done so far, always ready to be frozen into a `Rollout`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rlm_core.prompts import Task
from rlm_core.records import Rollout, Status, Turn, Usage
from rlm_core.rollouts.budget import Budget


@dataclass
class Node:
    """Mutable, owned by the one coroutine that runs it; a tree cut off at any moment freezes into a valid record."""

    id: str
    task: Task
    budget: Budget
    query_id: str = ""
    parent_id: str | None = None
    depth: int = 0
    parent_turn: int | None = None
    opening: tuple[tuple[str, str], ...] = ()
    turns: list[Turn] = field(default_factory=list)
    children: list[Node] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    """Plain model calls (`llm_query`): their tokens count in `usage`, but they are no nodes and never trained on."""
    answer: Any = None
    has_answer: bool = False
    status: Status = Status.CANCELLED
    """Of a node that has not ended: whatever cuts it off now leaves it cancelled."""
    failure: str = ""
    usage: Usage = field(default_factory=Usage)
    """Its own, without children."""
    has_run_code: bool = False
    refusals: int = 0
    """Requests that the budget refused."""

    def spend(self, **amounts: float) -> None:
        """Add to the node's own usage."""
        self.usage = self.usage.plus(Usage(**amounts))  # type: ignore[arg-type]

    def record_answer(self, answer: Any, status: Status) -> None:
        self.answer, self.has_answer, self.status = answer, True, status

    def as_slot(self) -> Any:
        """What the parent's program gets: the answer as JSON data, else `{"error": why}`."""
        if self.has_answer:
            return self.answer
        if self.status is Status.FAILED:
            return {"error": f"the child failed: {self.failure}"}
        why = {
            Status.OUT_OF_TURNS: f"no answer within {len(self.turns)} turns",
            Status.OUT_OF_BUDGET: "no answer within its budget",
        }
        return {"error": f"the child gave {why.get(self.status, 'no answer')}"}

    def freeze(self, *, cue_kept: bool, policy: str, provenance: dict[str, Any] | None = None) -> Rollout:
        """The record of this node and all below it."""
        children = tuple(child.freeze(cue_kept=cue_kept, policy=policy) for child in self.children)
        usage = self.usage
        for child in children:
            below = child.usage
            usage = usage.plus(below).plus(Usage(children=1))
        notes = dict(provenance or {})
        if self.calls:
            notes["calls"] = list(self.calls)
        if self.refusals:
            notes["budget_refusals"] = self.refusals
        return Rollout(
            id=self.id,
            parent_id=self.parent_id,
            depth=self.depth,
            query_id=self.query_id,
            parent_turn=self.parent_turn,
            question=self.task.question,
            opening=self.opening,
            cue_kept=cue_kept,
            turns=tuple(self.turns),
            children=children,
            answer=self.answer,
            status=self.status,
            failure=self.failure,
            usage=usage,
            policy=policy,
            provenance=notes,
        )


def failures(rollout: Rollout) -> list[str]:
    """What the harness failed at anywhere in the tree (endpoint, sandbox), "node id: what"; empty for a sound tree.

    A child that failed leaves an error in its slot and its parent goes on, so that paid work is not lost; but such a tree was
    not sampled under fair conditions, and whoever trains or averages leaves it out.
    """
    found = []
    for node in rollout.walk():
        if node.status is Status.FAILED:
            found.append(f"{node.id}: {node.failure}")
        calls = node.provenance.get("calls", ())
        found += [f"{node.id}: llm_query: {call['failure']}" for call in calls if call.get("failure")]
    return found
