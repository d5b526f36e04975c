"""The arms of an evaluation: who answers, with which model, under which limits.

| arm | what answers |
|---|---|
| `base`, `sft`, `grpo` | an RLM with the model before training, after distillation, after RL |
| `no_subcalls` | an RLM with the best trained model that may ask nobody and is told of no function to ask with |
| `full_context` | one call of the best trained model on the papers' text, cut to fit its context |
| `expert` | the scripted policy without noise: no model |
| `bm25_topk` | the k passages that BM25 ranks first, k and passage length chosen on validation queries: no model |
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rlm_core.files import content_key, sha256_file
from rlm_core.params import Arm
from rlm_core.rollouts import RolloutConfig

Harness = Literal["rlm", "expert", "full_context", "bm25"]
Model = Literal["base", "sft", "grpo"]

MODELS: tuple[Model, ...] = ("base", "sft", "grpo")
"""Least to most trained."""


@dataclass(frozen=True, slots=True)
class ArmPlan:
    """What an arm needs."""

    name: Arm
    harness: Harness
    model: Model | None = None
    subcalls: bool = True

    def config(self, config: RolloutConfig) -> RolloutConfig:
        """The arm's own limits. Without sub-calls, prompts do not mention the functions that make them."""
        if self.subcalls:
            return config
        return dataclasses.replace(config, max_depth=0, max_children=0, max_children_per_call=0)


def plan_arms(names: Sequence[Arm], models: Sequence[Model]) -> list[ArmPlan]:
    """The plans of the arms, arms of one model side by side so that each is loaded once.

    `models` are those that there are. Raises `ValueError` for an arm whose model is missing.
    """
    known = [model for model in MODELS if model in models]
    if not known and set(names) - {"expert", "bm25_topk"}:
        raise ValueError(f"arms {', '.join(names)}: no model to run them with")
    best = known[-1] if known else None
    plans = []
    for name in dict.fromkeys(names):
        if name == "expert":
            plans.append(ArmPlan(name, "expert"))
        elif name == "bm25_topk":
            plans.append(ArmPlan(name, "bm25"))
        elif name == "full_context":
            plans.append(ArmPlan(name, "full_context", best))
        elif name == "no_subcalls":
            plans.append(ArmPlan(name, "rlm", best, subcalls=False))
        elif name in known:
            plans.append(ArmPlan(name, "rlm", name))
        else:
            raise ValueError(f"arm {name}: there is no {name} model; known: {', '.join(known) or 'none'}")
    return sorted(plans, key=lambda plan: MODELS.index(plan.model) if plan.model else len(MODELS))


def weights_digest(folder: Path) -> str:
    """A key of all files of a model folder: other weights, another key."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return content_key([(str(path.relative_to(folder)), sha256_file(path)) for path in files])


def describe(plan: ArmPlan, models: Mapping[str, str]) -> str:
    """What stands for the arm's model in tables."""
    if plan.model is None:
        return "none (scripted)" if plan.harness == "expert" else "none (BM25)"
    return models[plan.model]
