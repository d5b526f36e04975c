"""Requests run together; a change of weights waits for those under way and holds back later ones."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator


class ReloadGate:
    """`request()` is held around each request, `reload()` around each change of weights."""

    def __init__(self) -> None:
        self._changed = asyncio.Condition()
        self._reloading = False
        self._under_way = 0

    @contextlib.asynccontextmanager
    async def request(self) -> AsyncIterator[None]:
        """Waits out a reload."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._reloading)
            self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
            async with self._changed:
                self._changed.notify_all()

    @contextlib.asynccontextmanager
    async def reload(self) -> AsyncIterator[None]:
        """Entered when no request is under way; none begins inside, and no other reload."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._reloading)
            self._reloading = True
        try:
            async with self._changed:
                await self._changed.wait_for(lambda: self._under_way == 0)
            yield
        finally:
            self._reloading = False
            async with self._changed:
                self._changed.notify_all()
