"""What shapes a rollout: prompts, limits, sampling, sandbox."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal, Self

from rlm_core.params import Params
from rlm_core.prompts import PromptStyle, Variant

PROTOCOL_VERSION = 1
"""Raised when the loop changes what a policy is shown; part of every key, so that stored rollouts are made again."""


@dataclass(frozen=True, slots=True)
class RolloutConfig:
    """The defaults suit a capable model; `from_params` takes those of `params.yaml`."""

    prompt: Variant = "plain"
    strategy: bool = True
    cue: Literal["kept", "ephemeral"] = "kept"
    max_turns: int = 10
    """A node. One more call for a last answer follows when they are used up."""
    max_depth: int = 3
    """Levels of children; 0 allows no sub-calls of any kind."""
    max_children_per_call: int = 8
    """Prompts of one batched call."""
    max_children: int = 64
    """Child RLMs and plain model calls of a whole tree, together."""
    max_tokens_per_turn: int = 1024
    max_tokens: int = 65536
    """Completion tokens of a whole tree."""
    wall_seconds: float = 600.0
    """A whole tree."""
    temperature: float = 1.0
    top_p: float = 1.0
    seed: int = 0
    """Every model call's own seed is derived from it, the node's id and the turn: never from the order of work."""
    sandbox: Literal["auto", "none"] = "auto"
    block_seconds: float = 20.0
    """A code block's time; waits for sub-calls do not count."""
    memory_mb: int = 512
    output_chars: int = 4000
    """Output shown to the model a turn; longer output keeps its head and tail."""

    def __post_init__(self) -> None:
        at_least = {"max_turns": 1, "max_depth": 0, "max_children_per_call": 0, "max_children": 0}
        at_least |= {"max_tokens_per_turn": 1, "max_tokens": 1, "output_chars": 0}
        for name, low in at_least.items():
            if getattr(self, name) < low:
                raise ValueError(f"RolloutConfig.{name} must be at least {low}, got {getattr(self, name)}")
        if self.wall_seconds <= 0:
            raise ValueError(f"RolloutConfig.wall_seconds must be above 0, got {self.wall_seconds}")

    @classmethod
    def from_params(cls, params: Params, **changes: Any) -> Self:
        """The config of `params.yaml`; `changes` override fields, e.g. `temperature=params.teach.temperature`."""
        rollout, repl = params.rollout, params.repl
        fields = rollout.model_dump()
        fields |= {
            "seed": params.seed,
            "sandbox": repl.sandbox,
            "block_seconds": repl.wall_seconds,
            "memory_mb": repl.memory_mb,
            "output_chars": repl.output_chars,
        }
        return cls(**{**fields, **changes})

    def for_papers(self, count: int) -> Self:
        """Room for one child a paper: a person may ask over more papers than a group of the training holds."""
        return dataclasses.replace(self, max_children=max(self.max_children, count) if self.max_children else 0)

    @property
    def cue_kept(self) -> bool:
        return self.cue == "kept"

    @property
    def style(self) -> PromptStyle:
        """What the prompts need to know."""
        return PromptStyle(
            variant=self.prompt,
            strategy=self.strategy,
            max_turns=self.max_turns,
            max_tokens_per_turn=self.max_tokens_per_turn,
            output_chars=self.output_chars,
            max_prompts_per_call=self.max_children_per_call,
        )

    @property
    def shape(self) -> dict[str, Any]:
        """All that shapes a rollout, as plain data for keys and provenance."""
        return {**dataclasses.asdict(self), "protocol_version": PROTOCOL_VERSION}
