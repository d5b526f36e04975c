"""LoRA: train two thin matrices beside each frozen linear layer, and hand out the model with them merged.

`W' = W + (alpha / rank) * B A` (Hu et al. 2021, arXiv 2106.09685), by PEFT. B begins at zero, so training begins at the model
as given; with the adapter switched off the model *is* the one as given, which is the reference of the KL. Whoever samples
is given W' under the model's plain names: no server needs to know of adapters.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rlm_core.optim import whole
from rlm_core.params import LoraParams

ADAPTER = "default"
"""PEFT's name of the only adapter."""
_OUTPUT = "lm_head"


def add_lora(model: Any, params: LoraParams, *, seed: int) -> Any:
    """A PEFT model around `model` in which only the adapter trains. The same `seed` gives the same adapter.

    Adapter weights are fp32 whatever the model's type. Raises `ValueError` for targets that the model does not have, and for
    the output layer: it shares its weight with the embedding in many models, and a merge would change both.
    """
    from peft import LoraConfig, get_peft_model

    targets = params.targets if isinstance(params.targets, str) else list(params.targets)
    if _OUTPUT in targets:
        raise ValueError(
            f"grpo.lora.targets names {_OUTPUT!r}, which may share its weight with the embedding; leave it out"
        )
    config = LoraConfig(r=params.rank, lora_alpha=params.alpha, target_modules=targets, task_type="CAUSAL_LM")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            return get_peft_model(model, config)
        except ValueError as error:
            raise ValueError(
                f"grpo.lora.targets {targets}: {error} It has: {', '.join(linear_names(model))}"
            ) from error


def linear_names(model: Any) -> list[str]:
    """Last names of the linear layers, the output layer left out: what an adapter can be put beside."""
    linear = [name for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)]
    return sorted({name.rpartition(".")[2] for name in linear} - {_OUTPUT})


def has_adapter(model: Any) -> bool:
    return hasattr(model, "disable_adapter")


def plain_model(model: Any) -> Any:
    """The transformers model, inside its adapter if it has one."""
    return model.get_base_model() if has_adapter(model) else model


def merged_state(model: Any) -> dict[str, Tensor]:
    """Weights under the model's plain names, adapters merged, in the types that the model has them in; shards gathered.

    The model itself is not touched: PEFT's `merge_adapter` and back would, in bf16, leave other weights behind.
    The sum is taken in fp32 and rounded once. Collective when the weights are sharded: every process must call it.
    """
    plain = plain_model(model)
    # Weights that are tied stay one tensor, gathered once: savers know them by that.
    owners = {name: id(tensor) for name, tensor in plain.named_parameters(remove_duplicate=False)}
    gathered: dict[int | str, Tensor] = {}
    state = {}
    for name, tensor in plain.state_dict().items():
        key = owners.get(name, name)
        if key not in gathered:
            gathered[key] = whole(tensor)
        state[name] = gathered[key]
    if not has_adapter(model):
        return state
    merged = {_plain_name(name): tensor for name, tensor in state.items() if ".lora_" not in name}
    for name, module in plain.named_modules():
        if hasattr(module, "base_layer"):
            a, b = (whole(getattr(module, part)[ADAPTER].weight) for part in ("lora_A", "lora_B"))
            weight = merged[f"{name}.weight"]
            merged[f"{name}.weight"] = (weight.float() + module.scaling[ADAPTER] * (b @ a)).to(weight.dtype)
    return merged


def save_adapter(model: Any, folder: Path) -> None:
    """`adapter_model.safetensors` and `adapter_config.json`, as `PeftModel.from_pretrained` reads them.

    Not for the folder of the merged model itself: loaders would put the adapter on top once more.
    """
    state = {name: whole(tensor) for name, tensor in model.state_dict().items() if ".lora_" in name}
    model.save_pretrained(folder, state_dict=state)


def _plain_name(name: str) -> str:
    return name.replace(".base_layer.", ".")
