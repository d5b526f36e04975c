"""What all nodes of one tree share: who acts, the config, the gate around model calls, the observer."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from rlm_core.policies.base import Action, Message, Policy, PolicyError, Sampling, policy_name
from rlm_core.rollouts.config import RolloutConfig
from rlm_core.rollouts.events import Event, EventKind, Observer
from rlm_core.rollouts.node import Node

log = logging.getLogger("rlm.rollouts")


@dataclass(frozen=True)
class Tree:
    policy: Policy
    config: RolloutConfig
    child_policy: Policy | None = None
    """Acts for every node below the root; None: the root's own policy."""
    gate: asyncio.Semaphore | None = None
    """Bounds model calls at once, over all trees that share it. Held around a call only: a parent that waits for children
    holds nothing that they need."""
    observer: Observer | None = None

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def policy_at(self, depth: int) -> Policy:
        return self.child_policy if depth > 0 and self.child_policy is not None else self.policy

    async def act(self, messages: Sequence[Message], *, depth: int, max_tokens: int, seed: int) -> tuple[Action, float]:
        """One model call and the seconds it took, waiting at the gate not counted. Raises `PolicyError`."""
        config = self.config
        sampling = Sampling(config.temperature, config.top_p, max_tokens, seed)
        gate: AbstractAsyncContextManager[Any] = self.gate if self.gate is not None else nullcontext()
        policy = self.policy_at(depth)
        async with gate:
            start = time.monotonic()
            try:
                action = await policy.act(messages, sampling)
            except PolicyError:
                raise
            except Exception as error:
                log.exception("policy %s raised instead of acting", policy_name(policy))
                raise PolicyError(f"{type(error).__name__}: {error}") from error
            if not isinstance(action, Action) or not isinstance(action.text, str):
                got = type(action.text if isinstance(action, Action) else action).__name__
                raise PolicyError(f"policy {policy_name(policy)} must return an Action with a text, got {got}")
            return action, time.monotonic() - start

    def emit(self, kind: EventKind, node: Node, *, turn: int = 0, text: str = "", data: Any = None) -> None:
        if self.observer is not None:
            self.observer(Event(kind, node.id, node.parent_id, node.depth, turn, text, data))


def derive_seed(*parts: Any) -> int:
    """A 31-bit seed of its own for every model call, the same in any order of work."""
    digest = hashlib.sha256("\x1f".join(str(part) for part in parts).encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1
