"""The running time of a block."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable


class Clock:
    """A block's running time, which stands still while sub-calls are awaited; rings once when it is used up."""

    def __init__(self) -> None:
        self._used, self._since, self._waits = 0.0, 0.0, 0
        self._running = False
        self._limit = 0.0
        self._ring: Callable[[], None] = lambda: None
        self._timer: asyncio.TimerHandle | None = None

    def start(self, limit: float, ring: Callable[[], None]) -> None:
        self._used, self._waits, self._limit, self._ring = 0.0, 0, limit, ring
        self._running = True
        self._go()

    def pause(self) -> None:
        self._waits += 1
        if self._waits == 1 and self._running:
            self._halt()

    def resume(self) -> None:
        """A wait has ended. One of an earlier block, which may be told of late, changes nothing."""
        if self._waits == 0:
            return
        self._waits -= 1
        if self._waits == 0 and self._running:
            self._go()

    def stop(self) -> None:
        if self._running and self._waits == 0:
            self._halt()
        self._running = False

    @property
    def seconds(self) -> float:
        """So far, or of the last block when none runs."""
        return self._used + (time.monotonic() - self._since if self._running and self._waits == 0 else 0.0)

    def _go(self) -> None:
        self._since = time.monotonic()
        self._timer = asyncio.get_running_loop().call_later(max(self._limit - self._used, 0), self._ring)

    def _halt(self) -> None:
        self._used += time.monotonic() - self._since
        if self._timer is not None:
            self._timer.cancel()
