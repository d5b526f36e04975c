"""Batched sampling with transformers' `generate`, each row with its own temperature, top_p, seed and length.

`generate` keeps the cache and the masks; the choice of each token is made by a logits processor, which leaves it only
that token, and notes its logprob.
"""

# B rows of the batch, V tokens of the vocabulary, P tokens of the longest prompt.

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList

from rlm_core.policies.base import Sampling


def log_distribution(logits_V: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """Log-probabilities that one token is sampled from: temperature, then top_p, renormalised; shape V.

    top_p keeps the smallest set of most likely tokens whose mass reaches `top_p`. Temperature 0 gives the model's own.
    """
    logits_V = logits_V.float()
    if sampling.temperature == 0:
        return logits_V.log_softmax(-1)
    logp_V = (logits_V / sampling.temperature).log_softmax(-1)
    if sampling.top_p >= 1:
        return logp_V
    sorted_V, order_V = logp_V.sort(descending=True)
    mass_before_V = sorted_V.exp().cumsum(-1) - sorted_V.exp()
    dropped_V = torch.zeros_like(logp_V, dtype=torch.bool).scatter(0, order_V, mass_before_V >= sampling.top_p)
    return logp_V.masked_fill(dropped_V, float("-inf")).log_softmax(-1)


class RowSampler(LogitsProcessor):
    """Chooses each row's next token and leaves it as the only possible one."""

    def __init__(self, samplings: Sequence[Sampling], max_tokens: Sequence[int], stop_id: int) -> None:
        self.samplings = samplings
        self.max_tokens = max_tokens
        self.stop_id = stop_id
        self.logprobs: list[list[float]] = [[] for _ in samplings]
        self._generators: list[torch.Generator | None] = [None] * len(samplings)

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """`input_ids` (B, any), `scores` (B, V) -> (B, V) with one finite entry a row."""
        chosen_BV = torch.full_like(scores, float("-inf"))
        for row, sampling in enumerate(self.samplings):
            if len(self.logprobs[row]) >= self.max_tokens[row]:
                chosen_BV[row, self.stop_id] = 0.0  # enough; what follows is cut off
                continue
            logp_V = log_distribution(scores[row], sampling)
            if sampling.temperature == 0:
                token = int(logp_V.argmax())
            else:
                token = int(torch.multinomial(logp_V.exp(), 1, generator=self._generator(row, scores.device)))
            self.logprobs[row].append(float(logp_V[token]))
            chosen_BV[row, token] = 0.0
        return chosen_BV

    def _generator(self, row: int, device: torch.device) -> torch.Generator | None:
        """The row's own generator where a seed is set, else torch's."""
        seed = self.samplings[row].seed
        if seed is None:
            return None
        generator = self._generators[row]
        if generator is None:
            generator = self._generators[row] = torch.Generator(device=device).manual_seed(seed)
        return generator


@torch.inference_mode()
def generate_batch(
    model: Any,
    prompts: Sequence[Sequence[int]],
    samplings: Sequence[Sampling],
    max_tokens: Sequence[int],
    *,
    stop_ids: Sequence[int],
) -> list[tuple[tuple[int, ...], tuple[float, ...]]]:
    """Completion ids (the stop id included, where one was sampled) and their logprobs, a row each.

    Prompts are padded on the left, with a mask. The model is put into evaluation mode for the call.
    """
    width = max(len(p) for p in prompts)
    pad = stop_ids[0]
    ids_BP = torch.tensor([[pad] * (width - len(p)) + list(p) for p in prompts], device=model.device)
    mask_BP = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts], device=model.device)
    sampler = RowSampler(samplings, max_tokens, stop_id=stop_ids[0])
    config = GenerationConfig(
        max_new_tokens=max(max_tokens), do_sample=False, eos_token_id=list(stop_ids), pad_token_id=pad, use_cache=True
    )
    was_training = model.training
    kept, model.generation_config = model.generation_config, GenerationConfig()  # its own top_k etc. must not act
    model.eval()
    try:
        out_BT = model.generate(
            input_ids=ids_BP,
            attention_mask=mask_BP,
            generation_config=config,
            logits_processor=LogitsProcessorList([sampler]),
        )
    finally:
        model.generation_config = kept
        model.train(was_training)
    rows = out_BT[:, width:].tolist()
    return [
        _cut(row, logprobs, limit, stop_ids)
        for row, logprobs, limit in zip(rows, sampler.logprobs, max_tokens, strict=True)
    ]


def _cut(
    row: Sequence[int], logprobs: Sequence[float], limit: int, stop_ids: Sequence[int]
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """The row up to its first stop id, at most `limit` tokens."""
    length = next((i + 1 for i, token in enumerate(row[:limit]) if token in stop_ids), min(limit, len(row)))
    return tuple(row[:length]), tuple(logprobs[:length])
