"""What is kept of the teacher's rollouts."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from rlm_core.params.section import Section, Share


class DistillParams(Section):
    min_reward: Share = 0.25
    """Judge reward that a tree must exceed to be kept."""
    max_row_tokens: int = Field(2048, ge=64)
    """Prompt and completion of one turn; longer rows are dropped."""
    max_row_chars: int | None = Field(None, ge=256)
    """The same in characters, as the RLM paper has it (100,000); null does not limit."""
    repl_errors: Literal["turn", "tree"] = "turn"
    """What a REPL error drops: the turn, so that the recovery after it is learned, or the whole tree."""
    children: Literal["best", "all"] = "all"
    """Children kept of a kept tree."""
