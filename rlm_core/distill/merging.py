"""SFT rows -> training sequences: input ids with labels, the loss on completions only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from rlm_core.grpo.tries import chains

IGNORED = -100
"""Label of a token that is read and not learned."""


class TrainingRow(TypedDict):
    input_ids: list[int]
    labels: list[int]


def training_rows(turns: Sequence[tuple[Sequence[int], Sequence[int]]], *, merge: bool) -> list[TrainingRow]:
    """(prompt, completion) ids -> rows in the order of the first turn that each holds.

    `merge`: turns that extend each other exactly become one row with every completion labelled: the same tokens are
    learned after the same inputs, and the shared history is computed once.

    [1 2]+[3] and [1 2 3 4]+[5] merge to input_ids 1 2 3 4 5 with labels . . 3 . 5
    """
    groups = chains(turns) if merge else [[i] for i in range(len(turns))]
    return [_row([turns[i] for i in group]) for group in sorted(groups, key=min)]


def _row(chain: Sequence[tuple[Sequence[int], Sequence[int]]]) -> TrainingRow:
    prompt, completion = chain[-1]
    ids = [*prompt, *completion]
    labels = [IGNORED] * len(ids)
    for before, said in chain:
        labels[len(before) : len(before) + len(said)] = said
    return {"input_ids": ids, "labels": labels}
