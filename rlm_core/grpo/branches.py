"""Attention over a prefix tree, branch by branch: the work of the tree's real depth, not of a dense N x N mask.

A segment is a stretch of the tree without a fork. Its tokens see the segments on the way to the root, whole, and their own
segment causally; so each segment is one small attention call over exactly the keys that it may see. With 8 branches of
240 tokens on a stem of 450, that is 4.6 times less work than the dense mask of 2,370 tokens.

Registered with transformers as the attention `rlm_branches`, which a pass switches on around its forward call.
"""

# B = 1 row, H heads, N tokens in depth-first order, D head size

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

NAME = "rlm_branches"


@dataclass
class Branches:
    """The segments of a trie in depth-first order.

    For the tree 7 8 {5 6 | 9}: lengths 2 2 1, ancestors (), (0,), (0,).
    """

    lengths: list[int]
    ancestors: list[tuple[int, ...]]
    """For each segment, the segments above it, root first."""
    calls: int = 0
    """Layers that have attended by them so far: none after a pass means that the model took another attention."""
    _masks: dict[tuple[int, int | None], Tensor | None] = field(default_factory=dict)

    def mask(self, segment: int, window: int | None, device: torch.device) -> Tensor | None:
        """[own length, keys]: True where a query sees a key; None where plain causal attention says the same.

        `window`: of sliding-window layers, the number of positions that a token sees, itself included.
        """
        key = (segment, window)
        if key not in self._masks:
            own = self.lengths[segment]
            above = sum(self.lengths[a] for a in self.ancestors[segment])
            if above == 0 and (window is None or own <= window):
                self._masks[key] = None
            else:
                query = torch.arange(above, above + own, device=device)[:, None]
                place = torch.arange(above + own, device=device)[None, :]
                seen = place <= query
                self._masks[key] = seen if window is None else seen & (query - place < window)
        return self._masks[key]


def find_branches(depths_N: np.ndarray, ends_N: np.ndarray) -> Branches:
    """Cut a trie (see `tries.Trie`) into segments."""
    follows = (depths_N[1:] == depths_N[:-1] + 1) & (ends_N[1:] == ends_N[:-1])
    starts = [0, *(np.flatnonzero(~follows) + 1).tolist()]
    stops = [*starts[1:], len(depths_N)]
    ancestors: list[tuple[int, ...]] = []
    path: list[int] = []
    for start in starts:
        while path and ends_N[starts[path[-1]]] <= start:
            path.pop()
        ancestors.append(tuple(path))
        path.append(len(ancestors) - 1)
    return Branches([b - a for a, b in zip(starts, stops, strict=True)], ancestors)


def branch_attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: None,
    *,
    scaling: float | None = None,
    sliding_window: int | None = None,
    branches: Branches | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """The attention function of a layer. `query` [1, H, N, D], `key` and `value` with their own number of heads."""
    if branches is None:
        raise RuntimeError(f"{type(module).__name__} was not given its branches; load the model with 'eager' attention")
    branches.calls += 1
    queries, keys, values = (x.split(branches.lengths, dim=2) for x in (query, key, value))
    shares_keys = query.shape[1] != key.shape[1]
    outputs = []
    for segment, (own_query, above) in enumerate(zip(queries, branches.ancestors, strict=True)):
        mask = branches.mask(segment, sliding_window, query.device)
        outputs.append(
            scaled_dot_product_attention(
                own_query,
                _joined(keys, above, segment),
                _joined(values, above, segment),
                attn_mask=mask,
                is_causal=mask is None,
                scale=scaling,
                enable_gqa=shares_keys,
            )
        )
    return torch.cat(outputs, dim=2).transpose(1, 2), None


def _joined(pieces: tuple[Tensor, ...], above: tuple[int, ...], own: int) -> Tensor:
    return torch.cat([pieces[i] for i in (*above, own)], dim=2) if above else pieces[own]


@contextlib.contextmanager
def attending_by_branches(config: Any) -> Iterator[None]:
    """Inside, models that read `config` use `branch_attention`; pass `branches=` to their forward."""
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, branch_attention)
    before = config._attn_implementation
    config._attn_implementation = NAME
    try:
        yield
    finally:
        config._attn_implementation = before
