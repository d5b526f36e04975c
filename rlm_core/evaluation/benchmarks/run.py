"""Run a benchmark: a rollout an item and sample, kept as they finish, scored by the items, with intervals."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from random import Random
from statistics import fmean
from typing import Any

from rlm_core.evaluation.benchmarks.item import BenchmarkItem
from rlm_core.evaluation.statistics import bootstrap_ci
from rlm_core.policies.base import Policy
from rlm_core.progress import Progress
from rlm_core.records import Query, Rollout, Status
from rlm_core.rollouts import Job, RolloutConfig, RolloutStore, failures, rollout_key, run_rollouts

CLUSTERS = ("group_id", "paper_id", "needles")
"""Metadata that names what items share: they stand or fall together, and are resampled together."""
PARTS = ("tier", "task", "needles", "primary_task", "domain", "answer_type")
"""Metadata by which scores are also given."""
GIVE_UP_AFTER = 8
"""Failed rollouts, and no sound one among them, after which the model counts as out of order."""


def select(
    items: Sequence[BenchmarkItem], *, only: Mapping[str, str] | None = None, limit: int | None = None, seed: int = 0
) -> list[BenchmarkItem]:
    """The items whose metadata is as `only` says, at most `limit` of them drawn by `seed`; raises `ValueError` for none."""
    found = list(items)
    for key, value in (only or {}).items():
        known = sorted({str(item.metadata[key]) for item in found if key in item.metadata})
        found = [item for item in found if str(item.metadata.get(key)) == value]
        if not found:
            options = f"{key} is one of {', '.join(known)}" if known else f"no item has {key!r}"
            raise ValueError(f"no item with {key}={value}: {options}")
    if limit is not None and limit < len(found):
        chosen = set(Random(f"bench {seed}").sample(range(len(found)), limit))
        found = [item for index, item in enumerate(found) if index in chosen]
    return found


async def run_items(
    items: Sequence[BenchmarkItem],
    policy: Policy,
    config: RolloutConfig,
    store: RolloutStore,
    *,
    identity: Any,
    samples: int = 1,
    concurrency: int = 16,
    hint: str = "",
) -> list[list[Rollout]]:
    """The rollouts of each item, by sample. Sound ones are kept in `store` and not made again; failed ones are.

    `hint` is put after every question. Raises `ValueError` when the first rollouts all fail.
    """
    queries = [with_hint(item.to_query(), hint) for item in items]
    jobs = [Job(query, sample) for query in queries for sample in range(samples)]
    keys = {f"{job.query.id}.{job.sample}": rollout_key(job.query, job.sample, config, identity) for job in jobs}
    missing = [job for job in jobs if keys[f"{job.query.id}.{job.sample}"] not in store]
    failed: dict[str, Rollout] = {}
    sound = 0
    with Progress("bench", len(jobs), "rollouts", done=len(jobs) - len(missing)) as progress:

        def done(rollout: Rollout) -> None:
            nonlocal sound
            if found := unscored(rollout):
                failed[rollout.id] = rollout
                if not sound and len(failed) >= GIVE_UP_AFTER:
                    raise ValueError(f"the first {len(failed)} rollouts failed, with: {found[0]}")
            else:
                sound += 1
                store.add(keys[rollout.id], rollout)
            progress.advance(note=f"{len(failed)} failed" if failed else "")

        await run_rollouts(missing, policy, config, concurrency=concurrency, on_done=done)
    ids = [[f"{query.id}.{sample}" for sample in range(samples)] for query in queries]
    return [[failed[i] if i in failed else store.get(keys[i]) for i in row] for row in ids]


def unscored(rollout: Rollout) -> list[str]:
    """What keeps a rollout from having a score: what the harness failed at, or that the budget ended before any answer."""
    silent = rollout.status is Status.OUT_OF_BUDGET and not rollout.usage.model_calls
    return failures(rollout) or ([f"no model call was answered: {rollout.failure}"] if silent else [])


def with_hint(query: Query, hint: str) -> Query:
    return dataclasses.replace(query, question=f"{query.question}\n\n{hint}") if hint else query


def summarise(
    items: Sequence[BenchmarkItem], rollouts: Sequence[Sequence[Rollout]], *, seed: int = 0, resamples: int = 2000
) -> dict[str, Any]:
    """Scores with 95 % intervals, in all and by part, what they cost, and a row an item.

    A rollout that the harness failed, or in which the model never came to speak, has no score; an item without one is left
    out of the means and counted in `failed_rollouts`.
    """
    scores = [
        [None if unscored(r) else item.score(r.answer) for r in row] for item, row in zip(items, rollouts, strict=True)
    ]
    means = [_mean([s for s in row if s is not None]) for row in scores]
    flat = [r for row in rollouts for r in row]
    sound = [r for r in flat if not unscored(r)]
    report: dict[str, Any] = {
        "n": len(items),
        "scored": sum(m is not None for m in means),
        "failed_rollouts": len(flat) - len(sound),
        **_scores(items, means, seed, resamples),
        "answered_share": _mean([float(r.status is Status.ANSWERED) for r in sound]),
        "context_tokens_mean": _mean([i.metadata["tokens"] for i in items if "tokens" in i.metadata]),
        "prompt_tokens_mean": _mean([r.usage.prompt_tokens for r in sound]),
        "completion_tokens_mean": _mean([r.usage.completion_tokens for r in sound]),
        "children_mean": _mean([r.usage.children for r in sound]),
        "turns_mean": _mean([len(r.turns) for r in sound]),
        "seconds_mean": _mean([r.usage.wall_seconds for r in sound]),
        "by": {},
    }
    for part in PARTS:
        values = sorted({item.metadata[part] for item in items if item.metadata.get(part) is not None}, key=str)
        if len(values) > 1:
            groups = {v: [i for i, item in enumerate(items) if item.metadata.get(part) == v] for v in values}
            report["by"][part] = {
                str(v): {"n": len(g), **_scores([items[i] for i in g], [means[i] for i in g], seed, resamples)}
                for v, g in groups.items()
            }
    report["items"] = [
        {
            "id": item.id,
            "scores": row,
            "status": [str(r.status) for r in answers],
            "failure": [r.failure for r in answers],
        }
        for item, row, answers in zip(items, scores, rollouts, strict=True)
    ]
    return report


def _scores(items: Sequence[BenchmarkItem], means: Sequence[float | None], seed: int, resamples: int) -> dict[str, Any]:
    known = [m for m in means if m is not None]
    if not known:
        return {"score_mean": None, "score_ci95": None, "resampled": None}
    name = next((key for key in CLUSTERS if len({item.metadata.get(key) for item in items}) > 1), None)
    clusters = [item.metadata.get(name) for item in items] if name else None
    if name and len({c for c, m in zip(clusters or (), means, strict=True) if m is not None}) < 2:
        name, clusters = None, None
    interval = bootstrap_ci(means, samples=resamples, seed=seed, clusters=clusters)
    return {"score_mean": fmean(known), "score_ci95": list(interval), "resampled": name or "items"}


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None
