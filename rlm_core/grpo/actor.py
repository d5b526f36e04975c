"""The sampling side of training: rolls trees out with the newest weights and takes new ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol

from rlm_core.policies.base import Policy
from rlm_core.policies.vllm_fleet import VllmFleet
from rlm_core.policies.vllm_server import VllmServer
from rlm_core.records import Query, Rollout
from rlm_core.rollouts import RolloutConfig, run_rollouts


class Actor(Protocol):
    @property
    def version(self) -> int:
        """Of the weights that a roll-out beginning now samples from; stamped on every turn."""
        ...

    async def roll_out(
        self, queries: Sequence[Query], *, samples: int, seed: int, temperature: float | None = None
    ) -> list[Rollout]:
        """`samples` trees a query, query by query, in order; at the training's temperature unless another is given."""
        ...

    async def publish(self, model: Any) -> int:
        """Sample from these weights from now on; returns their version."""
        ...


class ServerActor:
    """An actor on a vLLM server: trees run concurrently, all of their model calls in one continuous batch."""

    def __init__(
        self,
        server: VllmServer | VllmFleet,
        policy: Policy,
        config: RolloutConfig,
        *,
        concurrency: int,
        child_policy: Policy | None = None,
    ) -> None:
        """`child_policy` acts below the root, if given: a frozen model, whose tokens no step trains on."""
        self._server, self._policy, self._config, self._concurrency = server, policy, config, concurrency
        self._child_policy = child_policy

    @property
    def version(self) -> int:
        return self._server.version

    async def roll_out(
        self, queries: Sequence[Query], *, samples: int, seed: int, temperature: float | None = None
    ) -> list[Rollout]:
        config = self._config if temperature is None else dataclasses.replace(self._config, temperature=temperature)
        return await run_rollouts(
            queries,
            self._policy,
            config,
            samples=samples,
            seed=seed,
            concurrency=self._concurrency,
            child_policy=self._child_policy,
        )

    async def publish(self, model: Any) -> int:
        return await self._server.reload(model.state_dict())


def check_versions(rollouts: Sequence[Rollout], version: int, *, frozen_children: bool = False) -> None:
    """Raise unless every sampled token is of `version`: on-policy training must not learn from stale weights unnoticed.

    `frozen_children`: children act with a model that stays, and only the root's tokens are checked.
    """
    for tree in rollouts:
        for node in [tree] if frozen_children else tree.walk():
            for index, turn in enumerate(node.turns):
                if turn.completion_ids and turn.weights_version != version:
                    raise RuntimeError(
                        f"rollout {node.id!r} turn {index} was sampled with weights version {turn.weights_version}, "
                        f"expected {version}: something else gave the server weights, or a rollout outlived its step"
                    )
