"""Several training processes, as `accelerate launch` starts them: one leads, the others follow.

The leader alone rolls out, judges and writes files. For every update it tells the followers the samples; each process takes a
share of about as many tokens, and the sum of their gradients is the gradient of one process. Weights are whole in every
process, or, with an FSDP2 config of Accelerate's, sharded over them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlm_core.grpo.adapters import plain_model
from rlm_core.grpo.packing import sequence_of
from rlm_core.grpo.tries import shared_prefix, sort_key
from rlm_core.records import TurnSample

PATIENCE = timedelta(days=1)
"""Followers wait through the leader's roll-outs and evaluations."""


_LAUNCHER = {"RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE",
             "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}  # fmt: skip
"""Addressed to this process: a server that it starts would take itself for one of the team."""


@dataclass(frozen=True)
class Team:
    """The training processes. Alone, every method does nothing or returns its argument."""

    rank: int = 0
    size: int = 1
    shards: bool = False
    """Weights, gradients and optimizer state are split over the processes (FSDP2)."""
    device: torch.device | None = None
    """Where this process computes; None leaves that to whoever makes the model."""

    @classmethod
    def join(cls) -> Team:
        """The team that this process was launched into (its variables are torchrun's); of one when it was started plainly."""
        if int(os.environ.get("WORLD_SIZE", "1")) == 1:
            return cls()
        from accelerate import PartialState

        # Without a GPU gloo joins the processes, else nccl.
        state = PartialState(cpu=not torch.cuda.is_available(), timeout=PATIENCE)
        shards = os.environ.get("ACCELERATE_USE_FSDP", "").lower() == "true"
        if shards and os.environ.get("FSDP_VERSION") != "2":
            raise ValueError("the Accelerate config asks for FSDP 1; set fsdp_config.fsdp_version: 2")
        for name in [name for name in os.environ if name in _LAUNCHER or name.startswith("TORCHELASTIC_")]:
            del os.environ[name]
        return cls(state.process_index, state.num_processes, shards, state.device)

    @property
    def leads(self) -> bool:
        return self.rank == 0

    def place(self, model: Any) -> Any:
        """The model where this process computes, sharded layer by layer if the team does so."""
        if self.size == 1:
            return model
        assert self.device is not None
        model = model.to(self.device)
        if not self.shards:
            return model
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        mesh = init_device_mesh(self.device.type, (self.size,))
        policy = MixedPrecisionPolicy(
            reduce_dtype=torch.float32
        )  # bf16 gradients are summed as without shards: in fp32
        for layer in plain_model(model).get_decoder().layers:
            fully_shard(layer, mesh=mesh, mp_policy=policy)
        return fully_shard(model, mesh=mesh, mp_policy=policy)

    def tell(self, order: Any = None) -> Any:
        """The leader's `order`, in every process; followers wait for it."""
        if self.size == 1:
            return order
        from accelerate.utils import broadcast_object_list

        return broadcast_object_list([order])[0]

    def gather(self, item: Any) -> list[Any]:
        """Every process's item, by rank."""
        if self.size == 1:
            return [item]
        from accelerate.utils import gather_object

        return list(gather_object([item]))

    def sum_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Replace each gradient by the sum over processes; a lacking one counts as zeros. Shards are summed already."""
        if self.size == 1 or self.shards:
            return
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            torch.distributed.all_reduce(parameter.grad)


def shares(samples: Sequence[TurnSample], packing: str, size: int) -> list[list[TurnSample]]:
    """Cut `samples` into `size` lists that cost about as many tokens each.

    Sorted by their ids, so that what shares a prefix stays together; a sample's cost is what it adds to the one before it
    (all of its tokens for `none`). A prefix that is cut is computed on both sides. Lists may be empty.

    Sequences of 10 tokens that share 8, as four samples for two processes: costs 10, 2, 2, 2, cut into 1 and 3.
    """
    if size == 1:
        return [list(samples)]
    ordered = sorted(samples, key=lambda s: sort_key(sequence_of(s)))
    sequences = [sequence_of(s) for s in ordered]
    costs = [len(s) for s in sequences]
    if packing != "none":
        costs[1:] = [len(b) - shared_prefix(a, b) for a, b in pairwise(sequences)]
    # A sample goes to the process in whose stretch of the total the middle of its own tokens lies.
    middles = np.cumsum(costs) - np.asarray(costs) / 2
    owners = np.minimum(middles * size / max(1, sum(costs)), size - 1).astype(int)
    return [[s for s, owner in zip(ordered, owners, strict=True) if owner == rank] for rank in range(size)]
