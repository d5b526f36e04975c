"""A plan as text, for the terminal and the stage's log."""

from __future__ import annotations

from rlm_core.grpo.devices import Device
from rlm_core.grpo.plan import GIB, Plan, Shape
from rlm_core.params import Params


def render_plan(plan: Plan, shape: Shape, params: Params, device: Device, model: str) -> str:
    """What holds how much, whether it fits, and how long a step and the run take."""
    grpo = params.grpo
    trains = "all weights" if grpo.lora is None else f"adapters of rank {grpo.lora.rank}"
    seconds = plan.seconds_rollout + plan.seconds_train
    lines = [
        f"{model}: {shape.parameters:,} parameters, {params.model.dtype}; trains {trains}, {plan.trained:,}; on {device.name}",
        f"trainer  {plan.trainer_bytes / GIB:6.1f} GiB   {_parts(plan.trainer)}",
        f"server   {plan.server_bytes / GIB:6.1f} GiB   {_parts(plan.server)}; {plan.kv_bytes_per_token / 1024:.0f} KiB a "
        f"token, {plan.kv_sequences} sequences of {params.serve.max_model_len}",
        f"a step   {grpo.queries_per_step} groups x {grpo.rollouts_per_query} trees: {plan.sampled:,.0f} tokens sampled, "
        f"{plan.computed:,.0f} computed; {plan.seconds_rollout:.0f} s roll-out + {plan.seconds_train:.0f} s training",
        f"{grpo.steps} steps  {seconds * grpo.steps / 60:.0f} minutes, validation and start of the server not counted",
    ]
    return "\n".join([*lines, *(f"too large: {fault}" for fault in faults(plan, device))])


def faults(plan: Plan, device: Device) -> list[str]:
    """What does not fit on the device, and what to do; empty when all fits or its memory is not known."""
    if device.memory_gib is None:
        return []
    found = []
    if plan.trainer_bytes > device.memory_gib * GIB:
        found.append(
            f"the trainer needs {plan.trainer_bytes / GIB:.0f} GiB of {device.memory_gib:.0f}: lower grpo.max_tokens_per_pass, "
            "set grpo.lora, or shard over more processes"
        )
    if plan.kv_sequences < 1:
        found.append("the cache does not hold one sequence of serve.max_model_len: lower it")
    return found


def _parts(parts: dict[str, float]) -> str:
    return ", ".join(f"{name} {size / GIB:.2f}" for name, size in parts.items() if size)
