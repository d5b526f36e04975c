"""The model being trained: weights, optimizer, schedule, and one update from turn samples."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from rlm_core.grpo.gradients import accumulate_gradients
from rlm_core.grpo.report import LossReport
from rlm_core.optim import MasterAdamW
from rlm_core.params import GrpoParams
from rlm_core.records import TurnSample


@dataclass(frozen=True, slots=True)
class Update:
    report: LossReport
    grad_norm: float
    """Before the clip."""
    lr: float


class Learner:
    """Wraps a causal LM. It computes in the model's own type (bf16 or fp32); masters and optimizer state are fp32.

    With `config.beta > 0` a frozen copy of the model as given is the reference of the KL (a PEFT model needs none: its
    base is the reference).
    """

    def __init__(self, model: Any, config: GrpoParams) -> None:
        self.model = model.eval()  # no dropout: the ratio to the sampler must not be noise
        self.config = config
        self.reference = self._frozen_copy() if config.beta > 0 and not hasattr(model, "disable_adapter") else None
        self.optimizer = MasterAdamW(model.parameters(), lr=config.lr, max_grad_norm=config.max_grad_norm)

    def _frozen_copy(self) -> Any:
        reference = copy.deepcopy(self.model)
        return reference.requires_grad_(False)

    def update(self, samples: Sequence[TurnSample], step: int) -> Update:
        """One optimizer step. Without samples (every group equal) the weights stay as they are."""
        lr = self.config.lr * warmup(step, self.config.warmup_steps)
        if not samples:
            return Update(LossReport(), 0.0, lr)
        self.optimizer.param_groups[0]["lr"] = lr
        report = accumulate_gradients(self.model, samples, self.config, reference=self.reference)
        self.optimizer.step()
        return Update(report, self.optimizer.last_grad_norm, lr)

    def save(self, file: Path) -> None:
        """All that training goes on from, except the reference (it is the model that training began with)."""
        trained = {k: v for k, v in self.model.state_dict().items() if v.dtype == torch.float32}
        torch.save({"optimizer": self.optimizer.state_dict(), "fp32": trained, "rng": torch.get_rng_state()}, file)

    def load(self, file: Path) -> None:
        """Take up what `save` wrote; bf16 weights are made again from their masters."""
        state = torch.load(file, map_location="cpu", weights_only=True)
        self.model.load_state_dict(state["fp32"], strict=False)
        self.optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["rng"])


def warmup(step: int, steps: int) -> float:
    """Factor of the learning rate at `step` (from 0): with 2 warm-up steps 1/3, 2/3, then 1."""
    return min(1.0, (step + 1) / (steps + 1))
