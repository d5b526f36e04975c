"""Training on what is kept."""

from __future__ import annotations

from pydantic import Field

from rlm_core.params.section import Section, Share


class SftParams(Section):
    epochs: float = Field(1.0, gt=0)
    """Passes over the kept samples."""
    batch_size: int = Field(16, ge=1)
    """Rows an optimizer step."""
    micro_batch_size: int = Field(2, ge=1)
    """Rows a forward pass; changes memory and speed, not the gradient."""
    merge_turns: bool = True
    """Turns of a rollout whose prompts extend each other become one row with every completion in the loss: the same
    tokens are learned from the same inputs, and shared history is computed once. A row is then a dialogue."""
    lr: float = Field(3e-4, gt=0)
    """Peak learning rate of the cosine schedule."""
    warmup_share: Share = 0.05
    """Share of the steps over which the learning rate rises."""
    max_steps: int | None = Field(None, ge=1)
    """Stop after this many optimizer steps; null runs all epochs."""
    save_every: int = Field(10, ge=1)
    """Steps between checkpoints that a resume starts from."""
    format_samples: int = Field(4, ge=0)
    """Validation turns that the model writes by itself at each evaluation, for the curve of format success; 0 none."""
