"""The model being trained: weights, optimizer, schedule, and one update from turn samples."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rlm_core.grpo.adapters import add_lora, has_adapter, merged_state, plain_model, save_adapter
from rlm_core.grpo.forward import choose_packing
from rlm_core.grpo.gradients import accumulate_gradients, count_passes
from rlm_core.grpo.parallel import Team, shares
from rlm_core.grpo.report import LossReport, merge_reports
from rlm_core.optim import MasterAdamW, split_like, whole
from rlm_core.params import GrpoParams
from rlm_core.records import TurnSample

ADAPTER_FOLDER = "adapter"


@dataclass(frozen=True, slots=True)
class Update:
    report: LossReport
    grad_norm: float
    """Before the clip."""
    lr: float


class Learner:
    """Wraps a causal LM. It computes in the model's own type (bf16 or fp32); masters and optimizer state are fp32.

    With `config.lora` an adapter trains instead of the weights. With `config.beta > 0` a frozen copy of the model as given
    is the reference of the KL; with an adapter there is no copy, since the model without it is the reference.

    In a team, the leader's calls take all processes along; followers run `follow`.
    """

    def __init__(self, model: Any, config: GrpoParams, *, team: Team | None = None, seed: int = 0) -> None:
        self.team = team or Team()
        self.config = config
        model = model.eval()  # no dropout: the ratio to the sampler must not be noise
        if config.lora is not None:
            model = add_lora(model, config.lora, seed=seed)
        copied = config.beta > 0 and not has_adapter(model)
        self.reference = self.team.place(copy.deepcopy(model).requires_grad_(False)) if copied else None
        if config.gradient_checkpointing:
            recompute_layers(model)
        self.model = self.team.place(model)
        self.optimizer = MasterAdamW(self.model.parameters(), lr=config.lr, max_grad_norm=config.max_grad_norm)
        self.served = ServedModel(self)

    def update(self, samples: Sequence[TurnSample], step: int) -> Update:
        """One optimizer step. Without samples (every group equal) the weights stay as they are."""
        self._take_along("update", list(samples), step)
        lr = self.config.lr * warmup(step, self.config.warmup_steps)
        if not samples:
            return Update(LossReport(), 0.0, lr)
        self.optimizer.param_groups[0]["lr"] = lr
        report = self.accumulate(samples)
        self.optimizer.step()
        return Update(report, self.optimizer.last_grad_norm, lr)

    def accumulate(self, samples: Sequence[TurnSample]) -> LossReport:
        """Leave the gradient of the samples' loss with the optimizer's masters: the same one in every process."""
        team = self.team
        packing = choose_packing(self.model, self.config.packing)
        dealt = shares(samples, packing, team.size)
        # Sharded weights are gathered layer by layer by all processes together, so all must run as many passes.
        passes = max(count_passes(self.model, s, self.config, packing) for s in dealt) if team.shards else 0
        report = accumulate_gradients(
            self.model,
            dealt[team.rank],
            self.config,
            packing,
            reference=self.reference,
            scale=team.size if team.shards else 1,  # FSDP takes the mean over processes
            filler=(samples[0], passes),
        )
        team.sum_gradients(self.optimizer.masters)
        return merge_reports(team.gather(report))

    def save(self, file: Path) -> None:
        """All that training goes on from, except the reference and an adapter's base (the model that training began with)."""
        self._take_along("save", file)
        named = self.model.named_parameters()
        fp32 = {name: whole(p) for name, p in named if p.requires_grad and p.dtype == torch.float32}
        state = {"optimizer": self.optimizer.state_dict(), "fp32": fp32, "rng": torch.get_rng_state()}
        if self.team.leads:
            torch.save(state, file)

    @torch.no_grad()
    def load(self, file: Path) -> None:
        """Take up what `save` wrote; bf16 weights are made again from their masters."""
        self._take_along("load", file)
        state = torch.load(file, map_location="cpu", weights_only=True)
        parameters = dict(self.model.named_parameters())
        for name, tensor in state["fp32"].items():
            parameters[name].copy_(split_like(tensor, parameters[name]))
        self.optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["rng"])

    def weights(self) -> dict[str, Tensor]:
        """The weights as others know them: see `adapters.merged_state`."""
        self._take_along("weights")
        return merged_state(self.model)

    def dismiss(self) -> None:
        """Let the followers go, at the end. When the leader fails before, the launcher ends them."""
        self._take_along("end")

    def follow(self) -> None:
        """A follower's part: do what the leader does, until it lets go."""
        while True:
            name, *arguments = self.team.tell()
            if name == "end":
                return
            getattr(self, name)(*arguments)

    def _take_along(self, name: str, *arguments: Any) -> None:
        if self.team.leads:
            self.team.tell((name, *arguments))


class ServedModel:
    """The trained model for whoever samples from it or keeps it: plain names, adapters merged, shards gathered."""

    def __init__(self, learner: Learner) -> None:
        self._learner = learner

    def state_dict(self) -> dict[str, Tensor]:
        return self._learner.weights()

    def save_pretrained(self, folder: Path, state_dict: dict[str, Tensor] | None = None) -> None:
        """A plain Hugging Face folder, and the adapter in a folder within, if there is one."""
        model = self._learner.model
        plain_model(model).save_pretrained(folder, state_dict=self.state_dict() if state_dict is None else state_dict)
        if has_adapter(model):
            save_adapter(model, Path(folder) / ADAPTER_FOLDER)


def recompute_layers(model: Any) -> None:
    """Have each layer keep its input alone and compute the rest again in the backward pass.

    transformers does so in training mode only, so the model is put in that mode with every dropout at 0.
    """
    plain = plain_model(model)
    plain.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    plain.train()
    for module in plain.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        if hasattr(module, "attention_dropout"):
            module.attention_dropout = 0.0


def warmup(step: int, steps: int) -> float:
    """Factor of the learning rate at `step` (from 0): with 2 warm-up steps 1/3, 2/3, then 1."""
    return min(1.0, (step + 1) / (steps + 1))
