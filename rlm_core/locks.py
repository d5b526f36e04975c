"""Locks between processes that the kernel frees when their holder dies, also with kill -9 (`flock`)."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path


@contextlib.contextmanager
def file_lock(
    path: Path,
    *,
    holder: str,
    on_wait: Callable[[str], None],
    poll_seconds: float = 1.0,
    say_every_seconds: float = 60.0,
) -> Iterator[None]:
    """Hold `path` exclusively inside the block; wait for whoever holds it, as long as it takes.

    `holder` says who this is; it is what the others are told. `on_wait` gets a line at once and every
    `say_every_seconds`. The file stays: removing it would let two processes lock two files of one name.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+") as file:
        start, said = time.monotonic(), -say_every_seconds
        while not _taken(file.fileno()):
            waited = time.monotonic() - start
            if waited - said >= say_every_seconds:
                said = waited
                on_wait(f"{path.name} is held by {_holder(path)}; waiting ({waited:.0f} s)")
            time.sleep(poll_seconds)
        file.truncate(0)
        file.write(f"{holder} (process {os.getpid()})")
        file.flush()
        yield


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") or "another process"
