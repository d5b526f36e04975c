"""Per-turn GRPO over rollout trees: advantages, weights, the objective, packing, and the training loop.

`group_advantages` and `turn_samples` need no torch; the names that do are imported when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlm_core.grpo.advantages import group_advantages
from rlm_core.grpo.weights import turn_samples
from rlm_core.records import TurnSample

if TYPE_CHECKING:
    from rlm_core.grpo.gradients import accumulate_gradients, policy_loss
    from rlm_core.grpo.report import LossReport

__all__ = ["LossReport", "TurnSample", "accumulate_gradients", "group_advantages", "policy_loss", "turn_samples"]


def __getattr__(name: str) -> Any:
    if name in ("policy_loss", "accumulate_gradients", "LossReport"):
        from rlm_core.grpo import gradients

        return getattr(gradients, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
