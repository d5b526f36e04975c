"""The sweep over ways to train."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from rlm_core.params.section import Section

Variant = Literal["inherit", "no_division", "frozen_child", "root_only", "rejection", "sft_only"]


class AblationParams(Section):
    """The sweep of `make ablation`: how children are credited, and whether GRPO beats simpler training."""

    variants: tuple[Variant, ...] = ("inherit", "no_division", "frozen_child", "root_only", "rejection", "sft_only")
    """Ways to train that are compared; `rlm_core/ablation/variants.py` says what each is."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """Of sampling and the order of queries; the SFT model is the same for all."""
    kind: Literal["multi", "single"] = "multi"
    """Questions trained on and tested."""
    sampled_tokens: int = Field(250_000, ge=1)
    """Tokens that each cell may sample for training: it ends with the batch that reaches this number."""
    queries: int | None = Field(32, ge=1)
    """Test questions, drawn deterministically; null takes all."""
    samples_per_query: int = Field(4, ge=1)
    """Rollouts a test question and seed; a question's score is their mean."""
