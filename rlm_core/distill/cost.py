"""What a teacher costs: at most, before anything is paid; and as projected from the trees that are finished.

The bound is loose on purpose, as it must hold: every node of a tree full of children, every turn of a node used up, every
completion and every output as long as they may be. What trees really take is known after the first few.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rlm_core.params import EndpointParams
from rlm_core.prompts import Allowance, Task, opening
from rlm_core.records import Query, Rollout
from rlm_core.rollouts import RolloutConfig

CHARS_PER_TOKEN = 3
"""Fewer than any common tokenizer needs for English and code, so that tokens are over-estimated."""
CUE_TOKENS = 64
PILOT = 8
"""Finished trees from which the rest is projected."""


@dataclass(frozen=True, slots=True)
class Tokens:
    prompt: float
    completion: float

    def plus(self, other: Tokens) -> Tokens:
        return Tokens(self.prompt + other.prompt, self.completion + other.completion)

    def times(self, factor: float) -> Tokens:
        return Tokens(self.prompt * factor, self.completion * factor)


def most_tokens(query: Query, config: RolloutConfig) -> Tokens:
    """The most that one tree of `query` may take.

    A node makes `max_turns + 1` calls; call t (from 0) reads the opening and t turns with their outputs. For 2 calls, an
    opening of 100 and turns of 30 with outputs of 20 that is 100 + (100 + 30 + 20 + cue).
    """
    allowance = Allowance(config.max_children, config.max_depth)
    text = opening(Task(query.question, query.context), config.style, allowance)
    head = sum(len(content) for _, content in text) / CHARS_PER_TOKEN
    calls = config.max_turns + 1
    turn = config.max_tokens_per_turn + config.output_chars / CHARS_PER_TOKEN + CUE_TOKENS
    nodes = 1 + (config.max_children if config.max_depth else 0)
    completion = min(config.max_tokens, nodes * calls * config.max_tokens_per_turn)
    return Tokens(nodes * (calls * head + turn * calls * (calls - 1) / 2), completion)


def used_by(trees: Sequence[Rollout]) -> Tokens:
    """Of all calls of these trees, children included."""
    return Tokens(sum(t.usage.prompt_tokens for t in trees), sum(t.usage.completion_tokens for t in trees))


def describe(tokens: Tokens, endpoint: EndpointParams | None) -> str:
    """E.g. `1,200,000 + 80,000 tokens, cost 1.85`; the cost is `unknown` without prices, and left out without an endpoint."""
    text = f"{tokens.prompt:,.0f} + {tokens.completion:,.0f} tokens"
    if endpoint is None:
        return text
    cost = endpoint.cost(tokens.prompt, tokens.completion)
    return f"{text}, cost {'unknown' if cost is None else f'{cost:,.2f}'}"


class Meter:
    """Adds up finished trees, and projects the rest from those of this run once there are `PILOT`."""

    def __init__(self, endpoint: EndpointParams | None, num_missing: int) -> None:
        self._endpoint = endpoint
        self._missing = num_missing
        self.used = Tokens(0, 0)
        self.trees = 0
        """Finished in this run, failed ones included: they were paid for."""

    def add(self, tree: Rollout) -> None:
        self.trees += 1
        self.used = self.used.plus(used_by([tree]))

    @property
    def projected(self) -> Tokens | None:
        """All of this run, or None while too few trees are finished to say."""
        if self.trees < min(PILOT, self._missing) or not self.trees:
            return None
        return self.used.times(self._missing / self.trees)

    def over(self, max_cost: float | None) -> float | None:
        """The projected cost where it passes `max_cost`, else None."""
        if max_cost is None or self._endpoint is None or (projected := self.projected) is None:
            return None
        cost = self._endpoint.cost(projected.prompt, projected.completion)
        return cost if cost is not None and cost > max_cost else None
