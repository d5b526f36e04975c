"""AdamW on fp32 master copies: parameters may be bf16 for speed, their updates and gradient sums never are.

Parameters may be shards (DTensor, as FSDP2 makes them): their masters are shards too, and states are saved whole, so that
any number of processes can take them up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor


class MasterAdamW(torch.optim.Optimizer):
    """AdamW whose state and weights are fp32, for parameters of any float type.

    Each backward pass leaves its gradient in the master's fp32 `.grad` and none in the parameter's, so passes sum up in
    fp32. `step` clips the whole gradient to `max_grad_norm`, updates the masters, copies them into the parameters and
    clears the gradients. A master of an fp32 parameter is the parameter itself. `last_grad_norm` is the norm before
    the clip. bf16 parameters hold the rounded masters: what a server is given.
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        *,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        weight_decay: float = 0.0,
        max_grad_norm: float = 1.0,
    ) -> None:
        trained = [p for p in params if p.requires_grad]
        if not trained:
            raise ValueError("no parameter requires a gradient: nothing would be trained")
        self.masters = [p if p.dtype == torch.float32 else p.detach().float().clone() for p in trained]
        self.inner = torch.optim.AdamW(self.masters, lr=lr, betas=betas, weight_decay=weight_decay, fused=True)
        self.max_grad_norm = max_grad_norm
        self.last_grad_norm = 0.0
        super().__init__(trained, {"lr": lr})
        for parameter, master in zip(trained, self.masters, strict=True):
            if master is not parameter:
                parameter.register_post_accumulate_grad_hook(_gather_into(master))

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:
        """One update with what backward passes have left; without gradients only the schedule moves on."""
        assert closure is None, "closures are not supported"
        norm = torch.nn.utils.clip_grad_norm_(self.masters, self.max_grad_norm)
        self.last_grad_norm = float(whole(norm))
        self.inner.param_groups[0]["lr"] = self.param_groups[0]["lr"]
        self.inner.step()
        self._copy_to_parameters()
        self.zero_grad()

    def zero_grad(self, set_to_none: bool = True) -> None:
        for tensor in (*self.masters, *self.param_groups[0]["params"]):
            tensor.grad = None

    def state_dict(self) -> dict[str, Any]:
        own = [m for m, p in zip(self.masters, self.param_groups[0]["params"], strict=True) if m is not p]
        groups = [{k: v for k, v in g.items() if k != "params"} for g in self.param_groups]
        inner = self.inner.state_dict()
        inner["state"] = {i: {k: whole(v) for k, v in row.items()} for i, row in inner["state"].items()}
        return {"inner": inner, "masters": [whole(m) for m in own], "groups": groups}

    @torch.no_grad()
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        rows = state_dict["inner"]["state"].items()
        state = {i: {k: split_like(v, self.masters[i]) for k, v in row.items()} for i, row in rows}
        self.inner.load_state_dict({**state_dict["inner"], "state": state})
        pairs = zip(self.masters, self.param_groups[0]["params"], strict=True)
        for master, saved in zip([m for m, p in pairs if m is not p], state_dict["masters"], strict=True):
            master.copy_(split_like(saved, master))
        for group, saved_group in zip(self.param_groups, state_dict["groups"], strict=True):
            group.update(saved_group)
        self._copy_to_parameters()

    @torch.no_grad()
    def _copy_to_parameters(self) -> None:
        for parameter, master in zip(self.param_groups[0]["params"], self.masters, strict=True):
            if master is not parameter:
                parameter.copy_(master)


def whole(tensor: Tensor) -> Tensor:
    """A detached tensor; all of a sharded one, for which every process must call this."""
    from torch.distributed.tensor import DTensor

    return tensor.detach().full_tensor() if isinstance(tensor, DTensor) else tensor.detach()


def split_like(tensor: Tensor, like: Tensor) -> Tensor:
    """A whole tensor split as `like` is; one of another shape, or where `like` is whole, as it is. Collective likewise."""
    from torch.distributed.tensor import DTensor, distribute_tensor

    if not isinstance(like, DTensor) or tensor.shape != like.shape:
        return tensor
    return distribute_tensor(tensor.to(like.device), like.device_mesh, like.placements)


def _gather_into(master: Tensor) -> Callable[[Tensor], None]:
    def hook(parameter: Tensor) -> None:
        assert parameter.grad is not None
        if master.grad is None:
            master.grad = parameter.grad.float()
        else:
            master.grad += parameter.grad
        parameter.grad = None

    return hook
