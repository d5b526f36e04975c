"""An answer as the list of passages that it gives, whatever JSON shape the policy put it in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

TEXT_KEYS = ("text", "texts", "passage", "passages", "quote", "quotes", "evidence", "selections", "content", "answer")
"""Keys that hold passages; where a mapping has any of them, its other values (ids, titles, pages) are left out."""
MAX_DEPTH = 8


def answer_passages(answer: Any) -> list[str]:
    """The passages of an answer, in its order: strings as they are, lists and mappings flattened, numbers as text.

    `{"p1": ["a", "b"], "p2": {"paper": "p2", "text": "c"}}` gives a, b, c. None, booleans and blank strings give nothing.
    """
    return list(_passages(answer, 0))


def _passages(value: Any, depth: int) -> Sequence[str]:
    if value is None or isinstance(value, bool) or depth > MAX_DEPTH:
        return []
    if isinstance(value, str):
        return [value] if value.strip() else []
    if isinstance(value, int | float):
        return [str(value)]
    if isinstance(value, Mapping):
        named = [value[key] for key in TEXT_KEYS if key in value]
        return [p for item in named or value.values() for p in _passages(item, depth + 1)]
    if isinstance(value, Sequence | set | frozenset):
        return [p for item in value for p in _passages(item, depth + 1)]
    return [str(value)]


def read_within(passages: Sequence[str], gold: Sequence[str]) -> tuple[list[str], int]:
    """The passages that a judge reads, and the characters left unread.

    A judge reads `max(4000, 4 x the gold's)` characters, in the answer's order, repetitions once. The rest earns no recall
    and counts against precision: handing in the whole paper must not pay.
    """
    room = max(4000, 4 * sum(len(g) for g in gold))
    read: list[str] = []
    unread = 0
    for passage in dict.fromkeys(passages):
        if kept := passage[:room]:
            read.append(kept)
        unread += len(passage) - len(kept)
        room -= len(kept)
    return read, unread
