"""A step's rollouts: drawn, rolled out, judged, weighed against their group, and refilled where a group gave no signal."""

# Q queries of a roll-out, G trees each

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from rlm_core.grpo.actor import Actor, check_versions
from rlm_core.grpo.advantages import group_advantages
from rlm_core.grpo.draws import draw
from rlm_core.grpo.weights import is_cut
from rlm_core.params import GrpoParams
from rlm_core.records import Judgement, Query, Rollout
from rlm_core.rewards import Judge, judge_all
from rlm_core.rollouts import derive_seed, failures

JUDGE_CONCURRENCY = 32


@dataclass(frozen=True, slots=True)
class Served:
    """The weights that the actor samples from."""

    version: int
    """As the actor counts; begins anew with each process."""
    step: int
    """Updates that they have seen, over all processes of the run."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What one update learns from. Lists hold one entry a tree, group by group, groups in the order they were drawn."""

    queries: list[Query]
    rollouts: list[Rollout]
    judgements: list[Judgement | None]
    advantages: list[float | None]
    """None for every tree of a group without signal, and for trees that were not judged or left out."""
    group_size: int
    policy_step: int
    """Updates that the sampling weights had seen."""
    position: int
    """Of the draws, behind this batch."""
    guards: list[Judgement | None] | None = None
    """Verdicts of the judge that the reward never sees; None without such a judge."""
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def num_groups(self) -> int:
        return len(self.rollouts) // self.group_size

    @property
    def num_informative(self) -> int:
        """Groups with an advantage."""
        starts = range(0, len(self.advantages), self.group_size)
        return sum(any(a is not None for a in self.advantages[s : s + self.group_size]) for s in starts)

    def plus(self, other: Self) -> Self:
        """Both batches' groups; sampled from the same weights."""
        assert (self.policy_step, self.group_size) == (other.policy_step, other.group_size)
        guards = None if self.guards is None or other.guards is None else self.guards + other.guards
        return type(self)(
            queries=self.queries + other.queries,
            rollouts=self.rollouts + other.rollouts,
            judgements=self.judgements + other.judgements,
            advantages=self.advantages + other.advantages,
            group_size=self.group_size,
            policy_step=self.policy_step,
            position=max(self.position, other.position),
            guards=guards,
            seconds={key: self.seconds[key] + other.seconds[key] for key in self.seconds},
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data; queries by id."""
        return {
            "queries": [query.id for query in self.queries],
            "rollouts": [tree.to_dict() for tree in self.rollouts],
            "judgements": [verdict and verdict.to_dict() for verdict in self.judgements],
            "advantages": self.advantages,
            "group_size": self.group_size,
            "policy_step": self.policy_step,
            "position": self.position,
            "guards": self.guards and [verdict and verdict.to_dict() for verdict in self.guards],
            "seconds": dict(self.seconds),
        }

    @classmethod
    def from_dict(cls, row: Mapping[str, Any], queries: Sequence[Query]) -> Self:
        """Raises `KeyError` for a query that is not among `queries`."""
        by_id = {query.id: query for query in queries}

        def verdicts(rows: Sequence[Any]) -> list[Judgement | None]:
            return [Judgement.from_dict(verdict) if verdict else None for verdict in rows]

        return cls(
            **{
                **row,
                "queries": [by_id[id] for id in row["queries"]],
                "rollouts": [Rollout.from_dict(tree) for tree in row["rollouts"]],
                "judgements": verdicts(row["judgements"]),
                "guards": row["guards"] and verdicts(row["guards"]),
            }
        )


@dataclass(frozen=True, slots=True)
class Collector:
    """Makes batches. All randomness is derived from the seed, the step and the position of the draws."""

    actor: Actor
    judge: Judge
    queries: Sequence[Query]
    config: GrpoParams
    seed: int
    guard_judge: Judge | None = None

    async def collect(self, step: int, position: int, served: Served) -> Batch:
        """The batch of a step: `queries_per_step` groups and, while fewer of them are informative, at most `refill` more.

        Groups without signal stay in the batch: figures are of all rollouts, whatever was learned from them.
        """
        wanted, budget = self.config.queries_per_step, self.config.refill
        batch = await self._round(wanted, position, served, derive_seed(self.seed, "train", step))
        number = 0
        while count := min(wanted - batch.num_informative, budget):
            budget -= count
            number += 1
            seed = derive_seed(self.seed, "train", step, number)
            batch = batch.plus(await self._round(count, batch.position, served, seed))
        return batch

    async def _round(self, count: int, position: int, served: Served, seed: int) -> Batch:
        drawn_Q = draw(self.queries, count, position, self.seed, multi_share=self.config.multi_share)
        group_size = self.config.rollouts_per_query
        start = time.monotonic()
        rollouts = await roll_out(self.actor, drawn_Q, group_size, seed)
        check_versions(rollouts, served.version, frozen_children=self.config.children == "frozen")
        sampled = time.monotonic()
        queries_QG = [query for query in drawn_Q for _ in range(group_size)]
        judgements = await judge_trees(self.judge, queries_QG, rollouts)
        guards = await judge_trees(self.guard_judge, queries_QG, rollouts) if self.guard_judge else None
        return Batch(
            queries=queries_QG,
            rollouts=rollouts,
            judgements=judgements,
            advantages=advantages_of(rollouts, judgements, self.config),
            group_size=group_size,
            policy_step=served.step,
            position=position + count,
            guards=guards,
            seconds={"seconds_rollout": sampled - start, "seconds_judge": time.monotonic() - sampled},
        )


async def roll_out(
    actor: Actor, queries: Sequence[Query], samples: int, seed: int, *, temperature: float | None = None
) -> list[Rollout]:
    """`samples` trees a query, all of them there."""
    options = {} if temperature is None else {"temperature": temperature}
    rollouts = await actor.roll_out(queries, samples=samples, seed=seed, **options)
    if len(rollouts) != len(queries) * samples:
        raise RuntimeError(f"{len(rollouts)} rollouts came back for {len(queries)} queries x {samples}")
    return rollouts


async def judge_trees(judge: Judge, queries: Sequence[Query], rollouts: Sequence[Rollout]) -> list[Judgement | None]:
    """A verdict a tree; None where the judge failed, and where the harness failed anywhere in the tree."""
    asked = [i for i, tree in enumerate(rollouts) if not failures(tree)]
    items = [(queries[i].question, rollouts[i].answer, queries[i].gold) for i in asked]
    verdicts: list[Judgement | None] = [None] * len(rollouts)
    for index, verdict in zip(asked, await judge_all(judge, items, JUDGE_CONCURRENCY), strict=True):
        verdicts[index] = verdict
    return verdicts


def advantages_of(
    rollouts: Sequence[Rollout], judgements: Sequence[Judgement | None], config: GrpoParams
) -> list[float | None]:
    """An advantage a tree, group by group. With `length_cut: drop` a tree with a cut turn is left out of mean and std too."""
    advantages: list[float | None] = []
    rewards = [
        None if verdict is None or (config.length_cut == "drop" and has_cut(tree)) else verdict.reward
        for tree, verdict in zip(rollouts, judgements, strict=True)
    ]
    for start in range(0, len(rewards), config.rollouts_per_query):
        rewards_G = rewards[start : start + config.rollouts_per_query]
        advantages += group_advantages(rewards_G, scale_by_std=config.scale_by_std)
    return advantages


def has_cut(tree: Rollout) -> bool:
    """Whether any turn of the tree was cut at the token limit."""
    return any(is_cut(turn) for node in tree.walk() for turn in node.turns)
