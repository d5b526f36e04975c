"""Questions over one library, answered by one policy: so many at once, the rest wait, too many are refused."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

from rlm_core.params import Params
from rlm_core.policies import Policy
from rlm_core.records import Query, Rollout
from rlm_core.rollouts import Observer, RolloutConfig, run_rollout
from rlm_core.serving.requests import BadRequest, ChatRequest, question_of

if TYPE_CHECKING:
    from rlm_core.papers import Paper


class RlmService:
    """`concurrency`: trees at once. `waiting`: questions that may wait for their turn; more get a 429."""

    def __init__(
        self,
        policy: Policy,
        library: Mapping[str, Paper],
        params: Params,
        *,
        model: str,
        concurrency: int = 8,
        waiting: int = 64,
    ) -> None:
        if not library:
            raise ValueError("no papers to answer from")
        self.policy, self.library, self.params, self.model = policy, library, params, model
        self.running = 0
        self._places = asyncio.Semaphore(concurrency)
        self._queued = 0
        self._most_queued = concurrency + waiting

    def check(self, request: ChatRequest) -> Query:
        """The query of a request; raises `BadRequest` for an unknown model or paper."""
        from rlm_core.papers import attach_context

        if request.model not in (None, self.model):
            raise BadRequest(
                f"model '{request.model}' is not served here; '{self.model}' is",
                status=404,
                param="model",
                code="model_not_found",
            )
        ids = tuple(request.papers or self.library)
        if unknown := [paper for paper in ids if paper not in self.library]:
            raise BadRequest(f"papers: no paper '{unknown[0]}'; GET /v1/papers lists them", param="papers")
        query = Query(
            id="chat", question=question_of(request), kind="single" if len(ids) == 1 else "multi", paper_ids=ids
        )
        return attach_context(query, self.library)

    def refuse_if_full(self) -> None:
        """Raise `BadRequest` 429 when as many are at work and waiting as may be."""
        if self._queued >= self._most_queued:
            raise BadRequest(
                f"{self._queued} questions are at work or waiting; try again in a while", status=429, code="overloaded"
            )

    @contextlib.asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Held by whoever answers: waits for one of the places; raises `BadRequest` 429 when too many wait."""
        self.refuse_if_full()
        self._queued += 1
        try:
            async with self._places:
                self.running += 1
                try:
                    yield
                finally:
                    self.running -= 1
        finally:
            self._queued -= 1

    async def answer(self, query: Query, request: ChatRequest, observer: Observer | None = None) -> Rollout:
        """Run the tree; cancelling this ends it, with its REPLs."""
        overrides: dict[str, Any] = {"temperature": request.temperature}
        if request.seed is not None:
            overrides["seed"] = request.seed
        config = RolloutConfig.from_params(self.params, **overrides).for_papers(len(query.paper_ids))
        if limit := request.max_completion_tokens or request.max_tokens:
            config = dataclasses.replace(config, max_tokens=min(limit, config.max_tokens))
        return await run_rollout(query, self.policy, config, observer=observer)
