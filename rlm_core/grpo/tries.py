"""The prefix tree of token sequences, laid out as one sequence.

Sorted sequences visit their prefix tree in depth-first order: each adds, after the longest prefix that it shares with
the one before it, only its own tokens. Written down in that order, the tokens below a node are contiguous, so "k is an
ancestor of q, or q itself" is `k <= q < end[k]`: all that an attention mask needs to know.
"""

# N nodes (distinct tokens) of a tree, S sequences

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Ids = Sequence[int] | np.ndarray


@dataclass(frozen=True, slots=True)
class Trie:
    """The sequences [7, 8, 9] and [7, 8, 5, 6] sorted: tokens 7 8 5 6 9, depths 0 1 2 3 2, ends 5 5 4 4 5."""

    tokens_N: np.ndarray
    depths_N: np.ndarray
    """Distance from the root: the position that the token has in each of its sequences."""
    ends_N: np.ndarray
    """Index after the last token below this one."""
    paths_S: list[np.ndarray]
    """For each sequence, in the order given: the index of each of its tokens."""


def sort_key(sequence: Ids) -> bytes:
    """Orders sequences by their token ids, a prefix before what extends it."""
    return np.asarray(sequence, dtype=">u4").tobytes()


def shared_prefix(a: Ids, b: Ids) -> int:
    """Length of the longest common prefix."""
    length = min(len(a), len(b))
    differ = np.asarray(a[:length]) != np.asarray(b[:length])
    return int(differ.argmax()) if differ.any() else length


def build_trie(sequences: Sequence[Ids]) -> Trie:
    """Merge equal prefixes of `sequences`, which must be sorted by `sort_key`. Linear in their total length."""
    tokens: list[np.ndarray] = []
    depths: list[np.ndarray] = []
    paths: list[np.ndarray] = []
    total = sum(len(s) for s in sequences)
    ends: np.ndarray = np.zeros(total, dtype=np.int64)
    count = 0
    last: np.ndarray = np.zeros(0, dtype=np.int64)
    path: np.ndarray = np.zeros(0, dtype=np.int64)
    for sequence in sequences:
        row = np.asarray(sequence, dtype=np.int64)
        shared = shared_prefix(last, row)
        ends[path[shared:]] = count
        new = np.arange(count, count + len(row) - shared)
        path = np.concatenate([path[:shared], new])
        tokens.append(row[shared:])
        depths.append(np.arange(shared, len(row)))
        paths.append(path)
        count += len(new)
        last = row
    ends[path] = count
    empty: list[np.ndarray] = [np.zeros(0, dtype=np.int64)]
    return Trie(np.concatenate(tokens or empty), np.concatenate(depths or empty), ends[:count], paths)


def chains(turns: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[list[int]]:
    """Group (prompt, completion) pairs into chains, as indices; each prompt starts with the whole turn before it.

    [1 2]+[3], [1 2 3 4]+[5], [1 2 9]+[5] give the chains 0-1 and 2.
    """
    sequences = [np.asarray([*prompt, *completion], np.int64) for prompt, completion in turns]
    found: list[list[int]] = []
    stack: list[tuple[np.ndarray, list[int]]] = []
    for index in sorted(range(len(turns)), key=lambda i: sort_key(sequences[i])):
        sequence = sequences[index]
        # In sorted order, what is a prefix of this sequence forms a stack; all else cannot be extended any more.
        while stack and shared_prefix(stack[-1][0], sequence) < len(stack[-1][0]):
            stack.pop()
        if stack and len(stack[-1][0]) <= len(turns[index][0]):
            chain = stack.pop()[1]
            chain.append(index)
        else:
            chain = [index]
            found.append(chain)
        stack.append((sequence, chain))
    return found
