"""An evaluation on validation queries: the figure that picks the weights, and what tells learning from sharpening.

All evaluations of a run use the same queries and seeds, so that they differ by the weights alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from rlm_core.grpo.batches import Collector, judge_trees, roll_out
from rlm_core.grpo.figures import rollout_figures
from rlm_core.records import Judgement, Query, Rollout
from rlm_core.rollouts import derive_seed

T = TypeVar("T")

AT_TEMPERATURES = ("reward_mean", "evidence_f1", "answered_share")
"""Figures of an evaluation at a further temperature."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    figures: dict[str, float]
    """`val_*`; those at a further temperature end in e.g. `_t0`."""
    rollouts: list[Rollout]
    judgements: list[Judgement | None]


async def evaluate(collector: Collector, validation: Sequence[Query]) -> Evaluation:
    """`eval_samples` rollouts for each of `eval_queries` queries, and one for each at every further temperature.

    A policy that has only become sharper gains at its sampling temperature and not at 0, where it was as sharp before.
    """
    config = collector.config
    queries = spread(validation, config.eval_queries)
    seed = derive_seed(collector.seed, "val")
    rollouts = await roll_out(collector.actor, queries, config.eval_samples, seed)
    asked = [query for query in queries for _ in range(config.eval_samples)]
    judgements = await judge_trees(collector.judge, asked, rollouts)
    guards = await judge_trees(collector.guard_judge, asked, rollouts) if collector.guard_judge else None
    figures = rollout_figures(asked, rollouts, judgements, guards)
    for temperature in config.eval_temperatures:
        others = await roll_out(collector.actor, queries, 1, seed, temperature=temperature)
        at = rollout_figures(queries, others, await judge_trees(collector.judge, queries, others))
        figures |= {f"{key}_t{temperature:g}": at[key] for key in AT_TEMPERATURES if key in at}
    return Evaluation({f"val_{key}": value for key, value in figures.items()}, rollouts, judgements)


def spread(items: Sequence[T], count: int) -> list[T]:
    """At most `count` items, evenly over the list: neighbours in it are often about the same paper.

    >>> spread("abcdefgh", 3)
    ['a', 'c', 'f']
    """
    total = len(items)
    return [items[i * total // min(count, total)] for i in range(min(count, total))]
