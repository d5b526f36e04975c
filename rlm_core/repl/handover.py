"""Hands a context to workers through a memory file: no pipe, no JSON, one copy on each side.

A context that many workers read (all children of a tree, all samples of a question) is packed once while it is `shared`.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import marshal
import os
import threading
from collections.abc import Iterator
from typing import Any

from rlm_core.records import Context

_BIG_CONTEXT = 1 << 20
_SEALS = 0x1 | 0x2 | 0x4 | 0x8
"""F_SEAL_SEAL, SHRINK, GROW and WRITE: nobody can change the file again, not even this process."""
_F_ADD_SEALS = 1033


class _Shared:
    """The one memory file of a shared context, made by whoever needs it first."""

    def __init__(self, context: Any) -> None:
        self.context, self.users = context, 1
        self._lock = threading.Lock()
        self._descriptor = -1
        self._closed = False

    def open(self) -> int:
        """A descriptor for the caller to close."""
        with self._lock:
            if self._closed:  # the last user left just now
                return _write_memory_file(self.context)
            if self._descriptor < 0:
                self._descriptor = _write_memory_file(self.context)
            return os.dup(self._descriptor)

    @property
    def packed(self) -> bool:
        return self._descriptor >= 0

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1


_shared: dict[int, _Shared] = {}
_guard = threading.Lock()


@contextlib.contextmanager
def shared_context(context: Any) -> Iterator[None]:
    """Within it, every REPL that opens on this very object reads one memory file. The object must not change meanwhile.

    May be nested and overlap, also over threads: the file lives until the last one ends.
    """
    key = id(context)
    with _guard:
        entry = _shared.get(key)
        if entry is None:
            entry = _shared[key] = _Shared(context)
        else:
            entry.users += 1
    try:
        yield
    finally:
        with _guard:
            entry.users -= 1
            last = entry.users == 0
            if last:
                del _shared[key]
        if last:
            entry.close()


async def memory_file(context: Context) -> int:
    """A descriptor of a sealed memory file with the context, marshalled; the caller closes it. A worker maps it.

    Raises `ValueError` when the context holds anything but plain data.
    """
    if not isinstance(context, (str, dict)):
        raise ValueError(f"context must be a text or a dict of plain data, got {type(context).__name__}")
    with _guard:
        entry = _shared.get(id(context))
    if entry is not None and entry.packed:
        return entry.open()
    pack = entry.open if entry is not None else lambda: _write_memory_file(context)
    if _rough_size(context) > _BIG_CONTEXT:
        return await asyncio.to_thread(pack)
    return pack()


def _rough_size(value: Any) -> int:
    """Characters in a text or in a dict of dicts of texts, to decide whether packing it would hold up the event loop."""
    if isinstance(value, dict):
        return sum(_rough_size(item) for item in value.values())
    return len(value) if isinstance(value, (str, list)) else 1


def _write_memory_file(context: Context) -> int:
    try:
        data = marshal.dumps(context)
    except ValueError:
        raise ValueError("context must be a text or a dict of plain data (texts, numbers, lists, dicts)") from None
    descriptor = os.memfd_create("context", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        fcntl.fcntl(descriptor, _F_ADD_SEALS, _SEALS)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
