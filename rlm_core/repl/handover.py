"""Hands a context to a worker through a memory file: no pipe, no JSON, one copy on each side."""

from __future__ import annotations

import asyncio
import marshal
import os
from typing import Any

from rlm_core.records import Context

_BIG_CONTEXT = 1 << 20


async def memory_file(context: Context) -> int:
    """A memory file with the context, marshalled: the worker maps it, nothing goes through a pipe.

    Raises `ValueError` when the context holds anything but plain data.
    """
    if not isinstance(context, (str, dict)):
        raise ValueError(f"context must be a text or a dict of plain data, got {type(context).__name__}")
    if _rough_size(context) > _BIG_CONTEXT:
        return await asyncio.to_thread(_write_memory_file, context)
    return _write_memory_file(context)


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
    descriptor = os.memfd_create("context", os.MFD_CLOEXEC)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
