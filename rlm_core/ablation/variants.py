"""What is compared, and the params of one cell: one variant with one seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rlm_core.params import Params, Variant

MOST_STEPS = 10_000
"""The budget of tokens ends a cell long before."""


@dataclass(frozen=True, slots=True)
class VariantPlan:
    title: str
    method: Literal["grpo", "rejection", "none"]
    children: Literal["inherit", "no_division", "root_only", "frozen"] = "inherit"


PLANS: dict[Variant, VariantPlan] = {
    "inherit": VariantPlan("GRPO; children inherit the advantage, divided by their number", "grpo"),
    "no_division": VariantPlan("GRPO; children inherit the advantage, undivided", "grpo", "no_division"),
    "frozen_child": VariantPlan("GRPO on the root only; children act with the SFT model", "grpo", "frozen"),
    "root_only": VariantPlan("GRPO on the root only; children act with the current model", "grpo", "root_only"),
    "rejection": VariantPlan("SFT on the best trees of the SFT model's own groups", "rejection"),
    "sft_only": VariantPlan("the SFT model as it is", "none"),
}  # fmt: skip

COMPARED: tuple[tuple[Variant, Variant], ...] = (
    ("inherit", "no_division"),
    ("inherit", "root_only"),
    ("inherit", "frozen_child"),
    ("inherit", "rejection"),
    ("inherit", "sft_only"),
    ("rejection", "sft_only"),
)
"""Chosen before any run was seen; the first four are the questions, the last two the scale of the effects."""


def cell_name(variant: Variant, seed: int) -> str:
    return f"{variant}-seed{seed}"


def cell_params(params: Params, variant: Variant, seed: int) -> Params:
    """The params of a cell: those given, with the variant's children, the budget, the last weights and no validation.

    Validation would sample tokens outside the budget, and picking weights by it would favour longer training.
    """
    grpo = params.grpo.model_copy(
        update={
            "children": PLANS[variant].children,
            "steps": MOST_STEPS,
            "max_sampled_tokens": params.ablation.sampled_tokens,
            "multi_share": None,
            "eval_every": 0,
            "select": "last",
        }
    )
    # A store of the cell's own, without traces: dozens of cells would bury the pipeline's runs.
    mlflow = params.mlflow.model_copy(update={"tracking_uri": None, "traces_per_step": 0})
    return params.model_copy(update={"seed": params.seed + seed, "grpo": grpo, "mlflow": mlflow})
