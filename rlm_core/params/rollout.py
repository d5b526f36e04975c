"""Limits of a rollout tree and of its REPLs."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from rlm_core.params.section import Section


class ReplParams(Section):
    sandbox: Literal["auto", "none"] = "auto"
    """`auto` refuses to run without a working sandbox; `none` runs model-written code unprotected, with a warning each run."""
    wall_seconds: float = Field(20.0, gt=0)
    """A code block's time; waits for sub-calls do not count."""
    memory_mb: int = Field(512, ge=64, le=2**20)
    """Address space of a worker, MiB."""
    output_chars: int = Field(2000, ge=0)
    """Output shown to the model a block; longer output keeps its head and tail."""


class RolloutParams(Section):
    prompt: Literal["plain", "warn-subcalls", "compact"] = "compact"
    """Prompt variant; `compact` suits small models."""
    strategy: bool = True
    """Put the task strategy into the prompt."""
    cue: Literal["kept", "ephemeral"] = "kept"
    """The turn cue stays in the history, or is re-appended every turn."""
    max_turns: int = Field(4, ge=1)
    """A node."""
    max_depth: int = Field(1, ge=0)
    """0 allows no child RLMs."""
    max_children_per_call: int = Field(4, ge=0)
    """Prompts in one `rlm_query_batched` call."""
    max_children: int = Field(12, ge=0)
    """A tree."""
    max_tokens_per_turn: int = Field(160, ge=8)
    """Completion tokens; longer turns are cut and recorded as such."""
    max_tokens: int = Field(8000, ge=64)
    """Completion tokens a tree."""
    wall_seconds: float = Field(300.0, gt=0)
    """A tree."""
