"""Format success: how many turns a model, left to itself, writes in a form that the harness can act on.

Real generation on validation prompts, greedily, so that the figure is what a roll-out would meet and not what a teacher's
prefix suggests: under teacher forcing an untrained model is led through the format token by token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rlm_core.distill.repair import reads_well

ROOM = 2
"""Tokens that a turn may have, in lengths of the longest reference turn; a turn still unfinished then is no success."""


@dataclass(frozen=True, slots=True)
class FormatSet:
    """Prompts to continue, and the tokens each continuation may have."""

    prompts: tuple[tuple[int, ...], ...]
    max_new_tokens: int


def format_set(turns: Sequence[tuple[Sequence[int], Sequence[int]]], count: int) -> FormatSet:
    """At most `count` of the (prompt, completion) turns with different prompts, evenly spread over the rows.

    >>> format_set([([1], [5]), ([2], [5, 6]), ([3], [5])], 2)
    FormatSet(prompts=((1,), (3,)), max_new_tokens=2)
    """
    distinct = list({tuple(prompt): len(completion) for prompt, completion in turns}.items())
    count = min(count, len(distinct))
    places = [round(i * (len(distinct) - 1) / max(1, count - 1)) for i in range(count)]
    chosen = [distinct[place] for place in places]
    return FormatSet(tuple(prompt for prompt, _ in chosen), ROOM * max((length for _, length in chosen), default=0))


def format_success(model: Any, tokenizer: Any, chosen: FormatSet, stop_ids: Sequence[int]) -> float:
    """Share of the set's prompts that `model` continues with a whole turn that reads well (`repair.reads_well`)."""
    import torch

    training, pad = model.training, tokenizer.pad_token_id if tokenizer.pad_token_id is not None else stop_ids[0]
    model.eval()
    written = 0
    try:
        for prompt in chosen.prompts:
            ids = torch.tensor([prompt], device=model.device)
            with torch.no_grad():
                out = model.generate(
                    input_ids=ids,
                    attention_mask=torch.ones_like(ids),
                    max_new_tokens=chosen.max_new_tokens,
                    do_sample=False,
                    use_cache=True,
                    eos_token_id=list(stop_ids),
                    pad_token_id=pad,
                )
            said = out[0, len(prompt) :].tolist()
            ended = bool(said) and said[-1] in stop_ids
            text = tokenizer.decode(said[:-1] if ended else said, skip_special_tokens=False)
            written += ended and reads_well(text)
    finally:
        model.train(training)
    return written / len(chosen.prompts)
