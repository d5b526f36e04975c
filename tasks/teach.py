"""Stage `teach`: a teacher's rollouts on the train and val questions.

Reads data/queries/{train,val}.jsonl and data/parsed/; writes data/teacher/rollouts.jsonl, one tree a line, train first.
The most that the teacher may cost is logged first, and what it will cost as projected from the first finished trees.
Finished trees are kept in .cache/teach by a key of all that shapes them: a stage that was killed goes on where it was. A
tree in which the endpoint or the sandbox failed is left out, and tried again by the next run.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlm_core.distill.cost import Meter, Tokens, describe, most_tokens
from rlm_core.files import content_key, read_jsonl
from rlm_core.papers import attach_context
from rlm_core.params import Params, TeachParams
from rlm_core.policies import ExpertPolicy, OpenAIPolicy, Policy
from rlm_core.policies.expert import VERSION as EXPERT_VERSION
from rlm_core.progress import Progress
from rlm_core.records import ErrorClass, Judgement, Query, Rollout, Status
from rlm_core.repl import probe
from rlm_core.rewards import LexicalJudge, make_judge
from rlm_core.rollouts import Job, RolloutConfig, RolloutStore, failures, rollout_key, run_rollouts
from tasks.common import Stage, StageError, failed_trees, require, stage_main
from tasks.contexts import read_contexts
from tasks.traces import log_rollouts

log = logging.getLogger("rlm.teach")

QUERIES = Path("data/queries")
OUT = Path("data/teacher/rollouts.jsonl")
SPLITS = ("train", "val")
GIVE_UP_AFTER = 8
"""Failed trees in a row after which the teacher counts as out of order."""


def run(stage: Stage) -> None:
    params = stage.params
    queries = load_queries(params)
    stage.tracker.log_datasets("training", *(QUERIES / f"{split}.jsonl" for split in SPLITS))
    if params.repl.sandbox == "auto" and not (sandbox := probe()).full:
        raise StageError(sandbox.explain())
    config = RolloutConfig.from_params(params, temperature=params.teach.temperature)
    jobs = [Job(query, sample) for query in queries for sample in range(samples_of(query, params.teach))]
    identity = teacher_identity(params)
    keys = [rollout_key(job.query, job.sample, config, identity) for job in jobs]
    store = RolloutStore(stage.cache / "rollouts.jsonl")
    failed = asyncio.run(_teach(params, jobs, keys, config, store))

    kept = [(job, key) for job, key in zip(jobs, keys, strict=True) if key in store]
    if not kept:
        raise failed_trees(f"all {len(jobs)} trees failed, the first with", failed[0])
    # A scripted teacher's trees differ in nothing but their times: without them, equal params give equal bytes.
    store.publish(OUT, [key for _, key in kept], times=params.teach.policy != "expert")
    log_figures(stage, [job.query for job, _ in kept], store, [key for _, key in kept], failed)


def load_queries(params: Params) -> list[Query]:
    """Train questions, then val ones, with their contexts; at most `teach.max_queries`, drawn by the seed."""
    library = read_contexts()
    splits = []
    for split in SPLITS:
        path = require(QUERIES / f"{split}.jsonl", "queries")
        splits.append([Query.from_dict(row) for row in read_jsonl(path)])
    if not splits[0]:
        raise StageError(f"{QUERIES}/train.jsonl has no questions; look at reports/queries.json for the reason")
    shares = shares_of([len(rows) for rows in splits], params.teach.max_queries)
    chosen = []
    for rows, count in zip(splits, shares, strict=True):
        drawn = sorted(rows, key=lambda query: content_key(params.seed, query.id))[:count]
        ids = {query.id for query in drawn}
        chosen += [query for query in rows if query.id in ids]
    try:
        return [attach_context(query, library) for query in chosen]
    except ValueError as error:
        raise StageError(str(error)) from error


def samples_of(query: Query, params: TeachParams) -> int:
    """Trees of a query: multi-paper ones have a number of their own where it is set."""
    multi = params.rollouts_per_multi_query
    return multi if query.kind == "multi" and multi is not None else params.rollouts_per_query


def shares_of(sizes: Sequence[int], limit: int | None) -> list[int]:
    """How many of each split make `limit` in all: in proportion, but one at least of each that has any.

    >>> shares_of([90, 10], 20), shares_of([90, 3], 8), shares_of([5, 5], None)
    ([18, 2], [7, 1], [5, 5])
    """
    total = sum(sizes)
    if limit is None or total <= limit:
        return list(sizes)
    others = [min(size, max(1, round(limit * size / total))) if size else 0 for size in sizes[1:]]
    return [max(1, limit - sum(others)), *others]


def teacher_identity(params: Params) -> dict[str, Any]:
    """What tells teachers apart, for keys."""
    teach = params.teach
    if teach.policy == "expert":
        return {"policy": "expert", "noise": teach.noise, "seed": params.seed, "version": EXPERT_VERSION}
    assert teach.endpoint is not None  # checked by TeachParams
    return {"policy": "endpoint", "base_url": teach.endpoint.base_url, "model": teach.endpoint.model}


@contextlib.asynccontextmanager
async def open_teacher(params: Params) -> AsyncIterator[Policy]:
    """The teacher that the params name."""
    if params.teach.policy == "expert":
        yield ExpertPolicy(params.teach.noise, params.seed)
        return
    assert params.teach.endpoint is not None
    async with OpenAIPolicy.from_params(params.teach.endpoint) as policy:
        yield policy


async def _teach(
    params: Params, jobs: Sequence[Job], keys: Sequence[str], config: RolloutConfig, store: RolloutStore
) -> list[str]:
    """Run what the store does not have; returns what failed."""
    by_id = {f"{job.query.id}.{job.sample}": key for job, key in zip(jobs, keys, strict=True)}
    missing = [job for job, key in zip(jobs, keys, strict=True) if key not in store]
    failed: list[str] = []
    in_a_row = 0
    endpoint = params.teach.endpoint if params.teach.policy == "endpoint" else None
    meter = Meter(endpoint, len(missing))
    projection_told = endpoint is None
    if endpoint is not None:
        by_query = {job.query.id: most_tokens(job.query, config) for job in missing}
        most = functools.reduce(Tokens.plus, (by_query[job.query.id] for job in missing), Tokens(0, 0))
        log.info("teach: %d trees to make, at most %s", len(missing), describe(most, endpoint))
    with Progress("teach", len(jobs), "trees", done=len(jobs) - len(missing)) as progress:

        def done(rollout: Rollout) -> None:
            nonlocal in_a_row, projection_told
            meter.add(rollout)
            if found := failures(rollout):
                failed.extend(found[:1])
                in_a_row += 1
                if in_a_row >= GIVE_UP_AFTER:
                    raise failed_trees(
                        f"{in_a_row} trees in a row failed; those finished are kept. The last", failed[-1]
                    )
            else:
                in_a_row = 0
                store.add(by_id[rollout.id], rollout)
            if not projection_told and (projected := meter.projected) is not None:
                projection_told = True
                log.info("teach: projected from %d trees: %s", meter.trees, describe(projected, endpoint))
            if (cost := meter.over(params.teach.max_cost)) is not None:
                raise StageError(
                    f"projected cost {cost:,.2f} passes teach.max_cost ({params.teach.max_cost:,.2f}): {meter.trees} of "
                    f"{len(missing)} trees took {describe(meter.used, endpoint)}. Raise it, lower teach.max_queries or "
                    "teach.rollouts_per_query; finished trees are kept"
                )
            progress.advance(note=f"{len(failed)} failed" if failed else "")

        async with open_teacher(params) as policy:
            await run_rollouts(missing, policy, config, concurrency=params.teach.concurrency, on_done=done)
    return failed


@dataclass
class Figures:
    """Sums over trees, added one at a time."""

    trees: int = 0
    answered: int = 0
    nodes: int = 0
    turns: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    children: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0

    def add(self, tree: Rollout) -> None:
        self.trees += 1
        self.answered += tree.status is Status.ANSWERED
        self.children += tree.usage.children
        self.prompt_tokens += tree.usage.prompt_tokens
        self.completion_tokens += tree.usage.completion_tokens
        self.seconds += tree.usage.wall_seconds
        for node in tree.walk():
            self.nodes += 1
            self.turns += len(node.turns)
            self.errors.update(str(turn.error) for turn in node.turns if turn.error is not ErrorClass.NONE)

    def metrics(self) -> dict[str, float]:
        rows: dict[str, float] = {
            "trees": self.trees,
            "answered_share": self.answered / self.trees,
            "turns_per_node": self.turns / self.nodes,
            "children_per_tree": self.children / self.trees,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "seconds_per_tree": self.seconds / self.trees,
            "error_turn_share": self.errors.total() / max(1, self.turns),
        }
        return rows | {f"error_share_{name}": count / self.turns for name, count in sorted(self.errors.items())}


def log_figures(
    stage: Stage, queries: Sequence[Query], store: RolloutStore, keys: Sequence[str], failed: Sequence[str]
) -> None:
    """Figures over all trees, one in memory at a time, and a few trees as traces."""
    figures, rewards = Figures(), []
    shown: list[tuple[Rollout, Judgement | None]] = []
    for tree, judgement in _judged(stage, queries, store, keys):
        figures.add(tree)
        if judgement is not None:
            rewards.append(judgement.reward)
        if len(shown) < stage.params.mlflow.traces_per_step:
            shown.append((tree, judgement))
    metrics = figures.metrics() | {"failed_trees": len(failed)}
    endpoint = stage.params.teach.endpoint
    if stage.params.teach.policy == "endpoint" and endpoint is not None:
        used = Tokens(figures.prompt_tokens, figures.completion_tokens)
        log.info("teach: %d trees took %s", figures.trees, describe(used, endpoint))
        if (cost := endpoint.cost(used.prompt, used.completion)) is not None:
            metrics |= {"cost": cost, "cost_per_tree": cost / figures.trees}
    if rewards:
        metrics["reward_mean"] = sum(rewards) / len(rewards)
    stage.log_metrics(metrics)
    log_rollouts(stage.tracker, [tree for tree, _ in shown], [judgement for _, judgement in shown], limit=len(shown))
    if failed:
        log.warning("teach: %d trees failed and are left out, the first with: %s", len(failed), failed[0])


def _judged(
    stage: Stage, queries: Sequence[Query], store: RolloutStore, keys: Sequence[str]
) -> Iterator[tuple[Rollout, Judgement | None]]:
    """Trees with their verdicts where judging is free; `distill` asks a judge that costs something."""
    judge = make_judge(stage.params.judge)
    for query, tree in zip(queries, store.rollouts(keys), strict=True):
        if isinstance(judge, LexicalJudge) and query.gold:
            yield tree, judge.judge(query.question, tree.answer, query.gold)
        else:
            yield tree, None


if __name__ == "__main__":
    stage_main("teach", run)
