"""Runs arms: what was answered before is taken from the store, the rest is answered now and stored as it finishes."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from rlm_core.evaluation import codeact, full_context, summary_agent
from rlm_core.evaluation.arms import ArmPlan
from rlm_core.evaluation.retrieval import Bm25Choice, Retriever
from rlm_core.evaluation.scoring import failed
from rlm_core.policies import OpenAIPolicy, expert
from rlm_core.policies.base import Policy
from rlm_core.progress import Progress
from rlm_core.records import Query, Rollout
from rlm_core.rollouts import Job, RolloutConfig, RolloutStore, rollout_key, run_rollouts


class ModelHost(Protocol):
    """Where the model arms' policies come from."""

    max_model_len: int

    async def load(self, folder: Path) -> Policy:
        """Serve the model of `folder` from now on and return its policy."""
        ...


@dataclasses.dataclass
class Runner:
    """One evaluation: the same queries, samples and limits for every arm."""

    queries: Sequence[Query]
    """With their contexts."""
    config: RolloutConfig
    samples: int
    concurrency: int
    store: RolloutStore
    host: ModelHost
    folders: Mapping[str, Path]
    """Model folders by name: base, sft, grpo."""
    digests: Mapping[str, str]
    """Of their weights: part of every key, so that a changed model is answered anew."""
    expert: Callable[[float], Policy]
    """The scripted expert at a share of noise."""
    bm25: Bm25Choice | None = None

    def __post_init__(self) -> None:
        self._loaded: str | None = None
        self._policy: Policy | None = None
        self._retriever = Retriever()

    def jobs(self) -> list[Job]:
        return [Job(query, sample) for query in self.queries for sample in range(self.samples)]

    def key(self, plan: ArmPlan, job: Job) -> str:
        """All that shapes this arm's answer to this job."""
        return rollout_key(job.query, job.sample, plan.config(self.config), self._identity(plan))

    def _identity(self, plan: ArmPlan) -> dict[str, Any]:
        if plan.harness == "bm25":
            assert self.bm25 is not None, "the arm bm25_topk needs a choice of k"
            return {"harness": "bm25", "choice": [self.bm25.k, self.bm25.passage_chars]}
        if plan.actor == "expert":
            return {"harness": "expert", "version": expert.VERSION} | ({"noise": plan.noise} if plan.noise else {})
        identity: dict[str, Any] = {"harness": plan.harness, "context": self.context_tokens(plan)}
        if plan.endpoint is not None:
            identity |= {"url": plan.endpoint.base_url, "model": plan.endpoint.model}
        else:
            assert plan.model is not None
            identity["weights"] = self.digests[plan.model]
        if (version := VERSIONS.get(plan.harness)) is not None:
            identity["version"] = version
        return identity

    def context_tokens(self, plan: ArmPlan) -> int:
        """Prompt and completion of one call in this arm."""
        return plan.context_tokens or self.host.max_model_len

    async def answer(self, plan: ArmPlan) -> list[Rollout]:
        """The arm's rollouts in the order of the jobs. A tree that the harness failed is tried again by the next run."""
        jobs = self.jobs()
        keys = {id(job): self.key(plan, job) for job in jobs}
        missing = [job for job in jobs if keys[id(job)] not in self.store]
        fresh: dict[str, Rollout] = {}
        with Progress(f"arm {plan.name}", len(jobs), "rollouts", done=len(jobs) - len(missing)) as progress:
            if missing:
                by_id = {f"{job.query.id}.{job.sample}": keys[id(job)] for job in missing}

                def done(rollout: Rollout) -> None:
                    key = by_id[rollout.id]
                    fresh[key] = rollout
                    if _keep(rollout):
                        self.store.add(key, rollout)
                    progress.advance()

                await self._run(plan, missing, done)
        return [fresh[key] if (key := keys[id(job)]) in fresh else self.store.get(key) for job in jobs]

    async def _run(self, plan: ArmPlan, jobs: Sequence[Job], done: Callable[[Rollout], None]) -> None:
        if plan.harness == "bm25":
            assert self.bm25 is not None
            for job in jobs:
                done(self._retriever.answer(job.query, job.sample, self.bm25))
            return
        config = plan.config(self.config)
        async with self._acting(plan) as policy:
            if plan.harness == "rlm":
                await run_rollouts(jobs, policy, config, concurrency=self.concurrency, on_done=done)
            else:
                await _each(jobs, self._baseline(plan, policy, config), done, self.concurrency)

    def _baseline(self, plan: ArmPlan, policy: Policy, config: RolloutConfig) -> Callable[[Job], Awaitable[Rollout]]:
        """The answer of a harness other than the RLM to one job."""
        context = self.context_tokens(plan)

        async def work(job: Job) -> Rollout:
            match plan.harness:
                case "full_context":
                    return await full_context.answer(job.query, job.sample, policy, config, max_model_len=context)
                case "summary_agent":
                    return await summary_agent.answer(job.query, job.sample, policy, config, max_model_len=context)
            index = self._retriever.index(job.query, codeact.PASSAGE_CHARS) if plan.harness == "codeact_bm25" else None
            return await codeact.answer(job.query, job.sample, policy, config, max_model_len=context, index=index)

        return work

    @contextlib.asynccontextmanager
    async def _acting(self, plan: ArmPlan) -> AsyncIterator[Policy]:
        """The arm's policy: an endpoint's is closed after the arm, the server's model stays loaded for the next one."""
        if plan.endpoint is not None:
            async with OpenAIPolicy.from_params(plan.endpoint) as policy:
                yield policy
        else:
            yield self.expert(plan.noise) if plan.actor == "expert" else await self._model(plan)

    async def _model(self, plan: ArmPlan) -> Policy:
        assert plan.model is not None
        if self._policy is None or self._loaded != plan.model:
            self._policy = await self.host.load(self.folders[plan.model])
            self._loaded = plan.model
        return self._policy


VERSIONS = {
    "full_context": full_context.VERSION,
    "summary_agent": summary_agent.VERSION,
    "codeact": codeact.VERSION,
    "codeact_bm25": codeact.VERSION,
}
"""Of the prompts of harnesses other than the RLM, whose config has its own."""


def _keep(rollout: Rollout) -> bool:
    """Sound trees are final; those that the harness failed are worth another try."""
    return not failed(rollout)


async def _each(
    jobs: Sequence[Job],
    work: Callable[[Job], Awaitable[Rollout]],
    done: Callable[[Rollout], None],
    concurrency: int,
) -> None:
    gate = asyncio.Semaphore(concurrency)

    async def one(job: Job) -> None:
        async with gate:
            done(await work(job))

    async with asyncio.TaskGroup() as group:
        for job in jobs:
            group.create_task(one(job))
