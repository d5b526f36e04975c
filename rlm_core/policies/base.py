"""What a policy is: it reads messages and returns one completion, with the exact tokens where it has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class Message:
    role: Role
    content: str
    token_ids: tuple[int, ...] | None = None
    """For an assistant message: its completion ids as sampled. A renderer uses them as they are, so that a later
    prompt extends an earlier one token by token."""

    def __getitem__(self, key: Literal["role", "content"]) -> str:
        """For policies written against `{"role", "content"}` mappings."""
        if key not in ("role", "content"):
            raise KeyError(f"{key!r}; a message has 'role' and 'content'")
        return str(getattr(self, key))


@dataclass(frozen=True, slots=True)
class Sampling:
    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int = 512
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class Action:
    """One completion."""

    text: str
    prompt_ids: tuple[int, ...] = ()
    completion_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    """As sampled, one per completion token; empty where the policy has none."""
    finish_reason: str = "stop"
    """`stop`, or `length` when cut at `max_tokens`."""
    weights_version: int = 0
    prompt_tokens: int = 0
    """As counted by the policy; equals `len(prompt_ids)` where those are known."""
    completion_tokens: int = 0
    seconds: float = 0.0


class PolicyError(RuntimeError):
    """The policy could not act (endpoint unreachable, refused, malformed after all retries). The tree fails, unscored."""


class PromptTooLong(PolicyError):
    """The prompt leaves no room for a completion within the model's context."""


@runtime_checkable
class Policy(Protocol):
    @property
    def name(self) -> str: ...

    async def act(self, messages: Sequence[Message | Mapping[str, Any]], sampling: Sampling) -> Action:
        """Return one completion; raises `PolicyError`."""
        ...


def policy_name(policy: object) -> str:
    """The policy's name for records and messages; its class's where it has none (all that a rollout needs is `act`)."""
    return str(getattr(policy, "name", None) or type(policy).__name__)


def as_messages(messages: Sequence[Message | Mapping[str, Any]]) -> list[Message]:
    """Accept `{"role", "content"}` mappings beside `Message`."""
    return [m if isinstance(m, Message) else Message(m["role"], m["content"]) for m in messages]
