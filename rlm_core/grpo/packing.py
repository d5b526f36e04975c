"""Turn samples -> forward passes of bounded size. Which tokens are computed changes; what is computed does not.

- `none`: one row a sample, left-padded. The reference.
- `chain`: one row for samples that extend each other exactly (a prompt that starts with the prompt and completion of the
  sample before it), as turns with a kept cue do. Plain causal rows, so it suits every architecture.
- `tree`: one sequence a pass, the prefix tree of its samples; a token attends to its ancestors and stands at its depth.
  Each shared token is computed once, also where turns branch inside a prompt (an ephemeral cue) or rollouts share their
  opening. Samples are sorted by their ids, so that what shares most meets in one pass; a prefix that
  falls into two passes is computed twice, which is exact, too.

A sample is never cut: a pass holds at least one, even when it alone exceeds `max_tokens`.
"""

# S samples of a pass, T their completion tokens one after the other, U distinct scored places

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from rlm_core.grpo.tries import build_trie, chains, shared_prefix, sort_key
from rlm_core.records import TurnSample


@dataclass(frozen=True, slots=True)
class Pass:
    """One forward pass: rows of tokens, and where the log-probability of each completion token is found."""

    samples: list[TurnSample]
    rows: list[np.ndarray]
    """Token ids of each row, unpadded."""
    depths: np.ndarray | None
    """Positions of the only row's tokens, for `tree`; None for plain causal rows."""
    ends: np.ndarray | None
    """Index after the last descendant of each token, for `tree`."""
    place_row_U: np.ndarray
    place_column_U: np.ndarray
    """The token whose output scores the next one."""
    place_token_U: np.ndarray
    """The token that is scored there."""
    place_T: np.ndarray
    """For every completion token of every sample: its place. Tokens shared by samples share it."""
    sample_T: np.ndarray
    """Index into `samples` of the sample that the token belongs to."""

    @property
    def num_tokens(self) -> int:
        """Tokens computed, without padding."""
        return sum(len(row) for row in self.rows)

    def per_token(self, values: Sequence[float], like: torch.Tensor) -> torch.Tensor:
        """One value a sample -> one a completion token: shape [T], on the device and of the type of `like`."""
        return torch.tensor(values, dtype=like.dtype)[torch.from_numpy(self.sample_T)].to(like.device)


def sequence_of(sample: TurnSample) -> np.ndarray:
    return np.concatenate([np.asarray(sample.prompt_ids, np.int64), np.asarray(sample.completion_ids, np.int64)])


def plan_passes(samples: Sequence[TurnSample], packing: str, max_tokens: int) -> list[Pass]:
    """Split `samples` into passes of at most `max_tokens` tokens (padding included), packed as `packing` says."""
    if packing == "tree":
        return _tree_passes(samples, max_tokens)
    if packing == "chain":
        return _row_passes(_chained(samples), max_tokens)
    if packing == "none":
        return _row_passes([[sample] for sample in samples], max_tokens)
    raise ValueError(f"packing is {packing!r}; give 'tree', 'chain' or 'none'")


def _tree_passes(samples: Sequence[TurnSample], max_tokens: int) -> list[Pass]:
    ordered = sorted(samples, key=lambda s: sort_key(sequence_of(s)))
    groups: list[list[TurnSample]] = []
    size = 0
    last: np.ndarray = np.zeros(0, np.int64)
    for sample in ordered:
        sequence = sequence_of(sample)
        new = len(sequence) - shared_prefix(last, sequence)
        if groups and size + new <= max_tokens:
            groups[-1].append(sample)
            size += new
        else:
            groups.append([sample])
            size = len(sequence)
        last = sequence
    return [_tree_pass(group) for group in groups]


def _tree_pass(samples: list[TurnSample]) -> Pass:
    trie = build_trie([sequence_of(s) for s in samples])
    scored = [path[len(s.prompt_ids) :] for s, path in zip(samples, trie.paths_S, strict=True)]
    scoring = [path[len(s.prompt_ids) - 1 : -1] for s, path in zip(samples, trie.paths_S, strict=True)]
    nodes_U, first_U, place_T = np.unique(np.concatenate(scored), return_index=True, return_inverse=True)
    return Pass(
        samples=samples,
        rows=[trie.tokens_N],
        depths=trie.depths_N,
        ends=trie.ends_N,
        place_row_U=np.zeros(len(nodes_U), np.int64),
        place_column_U=np.concatenate(scoring)[first_U],
        place_token_U=trie.tokens_N[nodes_U],
        place_T=place_T.reshape(-1),
        sample_T=_sample_of_token(samples),
    )


def _chained(samples: Sequence[TurnSample]) -> list[list[TurnSample]]:
    found = chains([(s.prompt_ids, s.completion_ids) for s in samples])
    return [[samples[i] for i in chain] for chain in found]


def _row_passes(chains: list[list[TurnSample]], max_tokens: int) -> list[Pass]:
    """Plain causal rows, one a chain, of like lengths together so that little is padding."""
    rows = sorted(((sequence_of(chain[-1]), chain) for chain in chains), key=lambda pair: len(pair[0]))
    passes, start = [], 0
    for stop in range(1, len(rows) + 1):
        if stop == len(rows) or len(rows[stop][0]) * (stop + 1 - start) > max_tokens:
            passes.append(_row_pass(rows[start:stop]))
            start = stop
    return passes


def _row_pass(rows: list[tuple[np.ndarray, list[TurnSample]]]) -> Pass:
    samples = [sample for _, chain in rows for sample in chain]
    row_T = [np.full(len(s.completion_ids), index) for index, (_, chain) in enumerate(rows) for s in chain]
    column_T: list[np.ndarray] = [len(s.prompt_ids) - 1 + np.arange(len(s.completion_ids)) for s in samples]
    token_T = [np.asarray(s.completion_ids, np.int64) for s in samples]
    total = sum(len(t) for t in token_T)
    return Pass(
        samples=samples,
        rows=[row for row, _ in rows],
        depths=None,
        ends=None,
        place_row_U=np.concatenate(row_T),
        place_column_U=np.concatenate(column_T),
        place_token_U=np.concatenate(token_T),
        place_T=np.arange(total),
        sample_T=_sample_of_token(samples),
    )


def _sample_of_token(samples: list[TurnSample]) -> np.ndarray:
    return np.repeat(np.arange(len(samples)), [len(s.completion_ids) for s in samples])
