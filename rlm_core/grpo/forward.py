"""One packed forward pass through a causal LM of transformers: the log-probability of every completion token.

The only module of the objective that knows what a model's forward accepts. Logits are computed only at the places
where a token is scored (`logits_to_keep`). `tree` attends branch by branch on the CPU
(`branches.py`), by FlexAttention blocks where the model is loaded with `flex_attention`, else by a dense mask. Memory of a
pass beside the activations: the dense mask, one byte a pair of tokens (16 MiB at 4,096 tokens), and the logits, 4 bytes x
vocabulary x scored places, about three times over in the backward pass.
"""

# B rows, N columns; U scored places, T completion tokens (see packing.py)

from __future__ import annotations

import contextlib
import inspect
import logging
from typing import Any

import torch
from torch import Tensor

from rlm_core.grpo.adapters import plain_model
from rlm_core.grpo.branches import attending_by_branches, find_branches
from rlm_core.grpo.packing import Pass

log = logging.getLogger("rlm.grpo")

_MASKED_BY_US = {"full_attention", "sliding_attention"}
_DENSE = {"sdpa", "eager"}
_said: set[str] = set()


def choose_packing(model: Any, packing: str) -> str:
    """`auto` and `tree` give `tree` where the model's layers allow an ancestor mask, else `chain` with one log line."""
    if packing in ("chain", "none"):
        return packing
    if packing not in ("auto", "tree"):
        raise ValueError(f"packing is {packing!r}; give 'auto', 'tree', 'chain' or 'none'")
    reason = _no_tree_because(model)
    if reason is None:
        return "tree"
    if reason not in _said:
        _said.add(reason)
        log.warning("packing: 'chain' instead of 'tree': %s", reason)
    return "chain"


def _text_config(model: Any) -> Any:
    config = model.config
    return config.get_text_config() if hasattr(config, "get_text_config") else config


def _accepts(model: Any) -> set[str]:
    unwrapped = plain_model(model)
    return set(inspect.signature(getattr(unwrapped, "module", unwrapped).forward).parameters)


def _no_tree_because(model: Any) -> str | None:
    config = _text_config(model)
    kinds = set(getattr(config, "layer_types", None) or [])
    if kinds - _MASKED_BY_US:
        return (
            f"{type(model).__name__} has {', '.join(sorted(kinds - _MASKED_BY_US))} layers, which read tokens in order"
        )
    implementation = getattr(config, "_attn_implementation", None) or "eager"
    if implementation not in {*_DENSE, "flex_attention"}:
        return f"attention {implementation!r} takes no mask of ours; load the model with sdpa, eager or flex_attention"
    if "position_ids" not in _accepts(model):
        return f"{type(model).__name__} takes no position_ids"
    return None


def token_logprobs(model: Any, work: Pass, *, temperature: float = 1.0) -> Tensor:
    """log p of each completion token of `work`, as sampled at `temperature`. Shape [T], float32 (float64 if the model is)."""
    device = next(model.parameters()).device
    inputs, offset_B = _inputs(model, work, device)
    row_U = torch.from_numpy(work.place_row_U).to(device)
    column_U = torch.from_numpy(work.place_column_U).to(device) + offset_B[row_U]
    keep, kept_U = torch.unique(column_U, return_inverse=True)
    with attending_by_branches(_text_config(model)) if "branches" in inputs else contextlib.nullcontext():
        if "logits_to_keep" in _accepts(model):
            logits = model(**inputs, use_cache=False, logits_to_keep=keep).logits
        else:
            logits = model(**inputs, use_cache=False).logits[:, keep]
    if "branches" in inputs and inputs["branches"].calls == 0:
        raise RuntimeError(
            f"{type(model).__name__} did not attend by the branches of the tree, so its numbers would be wrong: its forward "
            "is not its own (a copy of a wrapped model?); load the model anew, or use packing 'chain'"
        )
    logits_UV = _precise(logits[row_U, kept_U]) / temperature
    token_U = torch.from_numpy(work.place_token_U).to(device)
    logp_U = logits_UV.gather(1, token_U[:, None])[:, 0] - logits_UV.logsumexp(-1)
    return logp_U[torch.from_numpy(work.place_T).to(device)]


def _precise(logits: Tensor) -> Tensor:
    """Half precisions are raised to float32; float64 is kept, for gradients that are checked to many digits."""
    return logits if logits.dtype == torch.float64 else logits.float()


def _inputs(model: Any, work: Pass, device: torch.device) -> tuple[dict[str, Any], Tensor]:
    """Arguments of the forward call, and for each row the column where its tokens begin."""
    if work.ends is not None and work.depths is not None:
        depths_N = torch.from_numpy(work.depths).to(device)
        ids = torch.from_numpy(work.rows[0]).to(device)
        inputs: dict[str, Any] = {"input_ids": ids[None], "position_ids": depths_N[None]}
        if _attends_by_branches(model, device):
            inputs["branches"] = find_branches(work.depths, work.ends)
        else:
            inputs["attention_mask"] = _ancestor_masks(model, torch.from_numpy(work.ends).to(device), depths_N)
        return inputs, torch.zeros(1, dtype=torch.int64, device=device)
    width = max(len(row) for row in work.rows)
    ids_BN = torch.zeros(len(work.rows), width, dtype=torch.int64)
    mask_BN = torch.zeros_like(ids_BN)
    for index, row in enumerate(work.rows):
        ids_BN[index, width - len(row) :] = torch.from_numpy(row)
        mask_BN[index, width - len(row) :] = 1
    offset_B = torch.tensor([width - len(row) for row in work.rows])
    inputs = {"input_ids": ids_BN.to(device), "attention_mask": mask_BN.to(device)}
    if "position_ids" in _accepts(model):
        inputs["position_ids"] = (mask_BN.cumsum(-1) - 1).clamp(min=0).to(device)
    return inputs, offset_B.to(device)


def _attends_by_branches(model: Any, device: torch.device) -> bool:
    """On the CPU, where a masked pair of tokens costs as much as another; a backward pass that computes layers again
    (gradient checkpointing) would miss the branches."""
    if device.type != "cpu" or getattr(model, "is_gradient_checkpointing", False):
        return False
    unwrapped = plain_model(model)
    parameters = inspect.signature(unwrapped.forward).parameters.values()
    passes_on = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)
    return passes_on and _text_config(model)._attn_implementation == "sdpa"


def _ancestor_masks(model: Any, ends_N: Tensor, depths_N: Tensor) -> Any:
    """A mask for all layers, or one a layer type where the model mixes full and sliding-window attention."""
    config = _text_config(model)
    window = getattr(config, "sliding_window", None)
    kinds = set(getattr(config, "layer_types", None) or [])
    implementation = getattr(config, "_attn_implementation", None) or "eager"
    build = _flex_mask if implementation == "flex_attention" else _dense_mask
    dtype = next(model.parameters()).dtype if implementation == "eager" else None
    if not kinds:
        return build(ends_N, depths_N, window, dtype)
    masks = {kind: build(ends_N, depths_N, window if kind == "sliding_attention" else None, dtype) for kind in kinds}
    return masks if _reads_mask_by_kind(model) else masks["full_attention"]


def _reads_mask_by_kind(model: Any) -> bool:
    """Models whose layers differ pick each layer's mask from a dict; the others take one mask."""
    decoder = model.get_decoder() if hasattr(model, "get_decoder") else model
    return "causal_mask_mapping" in inspect.getsource(type(decoder).forward)


def _dense_mask(ends_N: Tensor, depths_N: Tensor, window: int | None, dtype: torch.dtype | None) -> Tensor:
    """[1, 1, N, N]: True where query q (rows) sees key k; as an additive mask when `dtype` is given (eager attention)."""
    index_N = torch.arange(len(ends_N), device=ends_N.device)
    seen_NN = (index_N[None, :] <= index_N[:, None]) & (index_N[:, None] < ends_N[None, :])
    if window is not None:
        seen_NN &= depths_N[:, None] - depths_N[None, :] < window
    if dtype is None:
        return seen_NN[None, None]
    return torch.zeros(seen_NN.shape, dtype=dtype, device=ends_N.device).masked_fill(~seen_NN, torch.finfo(dtype).min)[
        None, None
    ]


def _flex_mask(ends_N: Tensor, depths_N: Tensor, window: int | None, dtype: torch.dtype | None) -> Any:
    """The same as a block mask: whole blocks outside the ancestors are never computed."""
    from torch.nn.attention.flex_attention import create_block_mask

    def sees(batch: Tensor, head: Tensor, q: Tensor, k: Tensor) -> Tensor:
        allowed = (k <= q) & (q < ends_N[k])
        return allowed if window is None else allowed & (depths_N[q] - depths_N[k] < window)

    size = len(ends_N)
    return create_block_mask(sees, None, None, size, size, device=str(ends_N.device))
