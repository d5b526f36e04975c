"""The inputs of a prompt: the task, the style, and what the node may spend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Variant = Literal["plain", "warn-subcalls", "compact"]
"""`plain` for capable models; `warn-subcalls` for those that call a child for everything; `compact` for small ones."""

Scope = Literal["single", "multi", "text"]
"""What there is to read: one paper, several, or something else (a text, a table, any dict)."""


@dataclass(frozen=True, slots=True)
class PromptStyle:
    """The part of a prompt that the config decides."""

    variant: Variant = "plain"
    strategy: bool = True
    max_turns: int = 10
    max_tokens_per_turn: int = 1024
    output_chars: int = 4000
    max_prompts_per_call: int = 8


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a node may still ask of others when it starts."""

    subcalls: int = 0
    """Child RLMs and plain model calls, together."""
    depth_left: int = 0
    """Levels of child RLMs below."""

    def may_ask(self, style: PromptStyle) -> bool:
        """Plain model calls are allowed."""
        return self.subcalls > 0 and style.max_prompts_per_call > 0

    def may_recurse(self, style: PromptStyle) -> bool:
        """Child RLMs are allowed."""
        return self.depth_left > 0 and self.may_ask(style)


@dataclass(frozen=True, slots=True)
class Task:
    """A node's question and what it reads."""

    question: str
    context: Any = ""
    is_child: bool = False

    @property
    def papers(self) -> Mapping[str, Mapping[str, Any]] | None:
        """The context as papers, `{id: {"text", ...}}`; None when it is something else."""
        context = self.context
        if not isinstance(context, Mapping) or not context:
            return None
        if all(isinstance(paper, Mapping) and isinstance(paper.get("text"), str) for paper in context.values()):
            return context
        return None

    @property
    def scope(self) -> Scope:
        if self.papers is None:
            return "text"
        return "single" if len(self.papers) == 1 else "multi"
