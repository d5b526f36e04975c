"""Many rollout trees at once on one event loop: no thread a rollout, results as they finish, the same in any order of work."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass

from rlm_core.policies.base import Policy
from rlm_core.records import Query, Rollout
from rlm_core.rollouts.config import RolloutConfig
from rlm_core.rollouts.events import Observer
from rlm_core.rollouts.loop import run_rollout

OnDone = Callable[[Rollout], Awaitable[None] | None]


@dataclass(frozen=True, slots=True)
class Job:
    """One tree to run: sample number `sample` of a query."""

    query: Query
    sample: int = 0


async def run_rollouts(
    jobs: Iterable[Query | Job],
    policy: Policy,
    config: RolloutConfig | None = None,
    *,
    concurrency: int = 16,
    samples: int = 1,
    seed: int | None = None,
    on_done: OnDone | None = None,
    child_policy: Policy | None = None,
    max_model_calls: int | None = None,
    observer: Observer | None = None,
) -> list[Rollout]:
    """Run every job and return the trees in the order of the jobs; a `Query` stands for its `samples` jobs.

    `concurrency` bounds trees at once: only roots wait for a place, children start at once, so a waiting parent cannot hold
    what its children need. REPL workers are bounded by it too: at most `concurrency * (1 + config.max_children)`.
    `max_model_calls` bounds model calls at once. `on_done` is called, and awaited, as each tree finishes.
    A failed tree is a result like others (`Status.FAILED`); an exception of `on_done` or a cancellation ends them all.
    """
    if concurrency < 1:
        raise ValueError(f"concurrency must be at least 1, got {concurrency}")
    config = config or RolloutConfig()
    if seed is not None:
        config = dataclasses.replace(config, seed=seed)
    gate = asyncio.Semaphore(max_model_calls) if max_model_calls else None
    queue = enumerate(_expand(jobs, samples))
    done: dict[int, Rollout] = {}

    async def work() -> None:
        for number, job in queue:
            rollout = await run_rollout(
                job.query,
                policy,
                config,
                sample=job.sample,
                child_policy=child_policy,
                gate=gate,
                observer=observer,
            )
            done[number] = rollout
            if on_done is not None and inspect.isawaitable(waiting := on_done(rollout)):
                await waiting

    workers = [asyncio.create_task(work(), name=f"trees {i}") for i in range(concurrency)]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    return [done[number] for number in sorted(done)]


def _expand(jobs: Iterable[Query | Job], samples: int) -> Iterator[Job]:
    for job in jobs:
        if isinstance(job, Job):
            yield job
        else:
            yield from (Job(job, sample) for sample in range(samples))
