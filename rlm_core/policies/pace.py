"""A rate limit: calls begin evenly spread, whoever makes them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable


class Pace:
    """`await turn()` before each call; calls then begin at least `60 / per_minute` seconds apart. None does not limit.

    Evenly spread rather than in bursts, so that a limit over any window is kept. Unused time is not saved up.
    """

    def __init__(self, per_minute: int | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._gap = 60 / per_minute if per_minute else 0.0
        self._clock = clock
        self._next = 0.0

    def reserve(self) -> float:
        """Take the next free moment; returns the seconds until it."""
        now = self._clock()
        begin = max(now, self._next)
        self._next = begin + self._gap
        return begin - now

    async def turn(self) -> None:
        if self._gap and (wait := self.reserve()) > 0:
            await asyncio.sleep(wait)
