"""Rollout trees on disk: appended as they finish, found again by key after a crash, published whole under their final name.

A line is `{"key": ..., "rollout": {...}}` in the store, the rollout alone in a published file.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from rlm_core.files import append_jsonl, content_key, read_jsonl, write_jsonl
from rlm_core.records import Query, Rollout
from rlm_core.rollouts.config import RolloutConfig

log = logging.getLogger("rlm.rollouts")

SCHEMA_VERSION = 1
"""Of the stored rows; rows of another version are not taken up by a resume."""


def rollout_key(query: Query, sample: int, config: RolloutConfig, policy: Any) -> str:
    """The key of a tree: all that shapes it. `policy`: plain data that tells apart whatever may act differently."""
    return content_key(SCHEMA_VERSION, query.id, query.question, _context_digest(query), sample, config.shape, policy)


def _context_digest(query: Query) -> str:
    if not isinstance(query.context, dict):
        return content_key(query.context)
    return content_key({key: _entry_digest(entry) for key, entry in query.context.items()})


def _entry_digest(entry: Any) -> Any:
    if isinstance(entry, dict):
        return {name: _digest(str(value)) for name, value in entry.items()}
    return _digest(json.dumps(entry, sort_keys=True, default=str))


@lru_cache(maxsize=4096)
def _digest(text: str) -> str:
    """Papers are shared by many queries: each is read once."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


class RolloutStore:
    """Finished trees of one stage, by key. One process writes at a time."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._offsets: dict[str, int] = {}
        self._indexed = 0
        self._index()

    def __contains__(self, key: str) -> bool:
        return key in self._offsets

    def __len__(self) -> int:
        return len(self._offsets)

    def add(self, key: str, rollout: Rollout) -> None:
        """Append a finished tree; it is on disk when this returns."""
        append_jsonl(self.path, {"version": SCHEMA_VERSION, "key": key, "rollout": rollout.to_dict()})
        self._index(from_end=True)

    def get(self, key: str) -> Rollout:
        """The tree of a key, read from disk. Raises `KeyError`."""
        with open(self.path, "rb") as lines:
            lines.seek(self._offsets[key])
            return Rollout.from_dict(json.loads(lines.readline())["rollout"])

    def rollouts(self, keys: Iterable[str]) -> Iterator[Rollout]:
        """The trees of these keys, in this order, one in memory at a time."""
        for key in keys:
            yield self.get(key)

    def publish(self, path: Path, keys: Iterable[str], *, times: bool = True) -> int:
        """Write the trees of these keys to `path`, whole or not at all; returns their number.

        Without `times`, equal trees give equal bytes however long they took.
        """
        trees = self.rollouts(keys) if times else map(without_times, self.rollouts(keys))
        return write_jsonl(path, (tree.to_dict() for tree in trees))

    def _index(self, *, from_end: bool = False) -> None:
        """Learn where each key's line starts; a line cut by a crash is left out, the next `add` drops it.

        A damaged line costs its own tree, which is told and made again, and no other.
        """
        if not self.path.exists():
            return
        with open(self.path, "rb") as lines:
            lines.seek(self._indexed if from_end else 0)
            offset = lines.tell()
            for line in lines:
                if not line.endswith(b"\n"):
                    break
                try:
                    row = json.loads(line)
                    if row["version"] == SCHEMA_VERSION:
                        row["rollout"]["id"]
                        self._offsets[row["key"]] = offset
                except (ValueError, KeyError, TypeError, RecursionError) as error:
                    log.warning(
                        "%s: byte %d: not a stored rollout, made again (%s: %s)",
                        self.path, offset, type(error).__name__, error,
                    )  # fmt: skip
                offset += len(line)
        self._indexed = offset


def without_times(tree: Rollout) -> Rollout:
    """The tree with every measured duration set to 0."""
    return dataclasses.replace(
        tree,
        turns=tuple(dataclasses.replace(turn, model_seconds=0.0, repl_seconds=0.0) for turn in tree.turns),
        children=tuple(map(without_times, tree.children)),
        usage=dataclasses.replace(tree.usage, repl_seconds=0.0, model_seconds=0.0, wall_seconds=0.0),
    )


def read_rollouts(path: Path | str) -> Iterator[Rollout]:
    """The trees of a published file (or of a store), lazily, one in memory at a time."""
    for row in read_jsonl(Path(path), allow_cut_tail=True):
        yield Rollout.from_dict(row.get("rollout", row))
