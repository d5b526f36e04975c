"""One vLLM server of a fleet, through its lives: joined with weights, asked, left, joined again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import aiohttp

from rlm_core.policies.base import PolicyError
from rlm_core.policies.http import JsonClient
from rlm_core.policies.served_model import VllmServerError
from rlm_core.policies.vllm_server import VllmServer

T = TypeVar("T")


class Member:
    """The server at `url`. `serve(url)` makes the `VllmServer` of its next life: between two it may have been restarted."""

    def __init__(
        self, url: str, serve: Callable[[str], VllmServer], *, timeout_seconds: float, silent_seconds: float
    ) -> None:
        self.url = url.removesuffix("/").removesuffix("/v1")
        self.in_flight = 0
        self._serve, self._silent_seconds = serve, silent_seconds
        self._timeout = timeout_seconds
        self._server: VllmServer | None = None
        self._http: JsonClient | None = None
        self._left = asyncio.Event()
        self._last_answer = time.monotonic()

    @property
    def alive(self) -> bool:
        """Whether it is in use."""
        return self._server is not None

    @property
    def version(self) -> int:
        return self._living.version

    @property
    def max_model_len(self) -> int:
        return self._living.max_model_len

    @property
    def _living(self) -> VllmServer:
        if self._server is None:
            raise VllmServerError(f"{self.url} is left out of the fleet")
        return self._server

    async def check(self, session: aiohttp.ClientSession) -> bool:
        """Whether it answers its health check; one in use that merely keeps silent still counts for `silent_seconds`."""
        try:
            async with session.get(f"{self.url}/health") as reply:
                healthy = reply.status == 200
        except TimeoutError:
            return self.alive and time.monotonic() - self._last_answer < self._silent_seconds
        except aiohttp.ClientError:
            return False
        if healthy:
            self._last_answer = time.monotonic()
        return healthy

    async def join(self, version: int, source: Path, *, at_least: int = 0) -> None:
        """Begin a life: compare it with what is asked for, and give it the weights of `source`, called `version`.

        Raises `VllmServerError` when it refuses, or serves a context under `at_least` tokens.
        """
        server = self._serve(self.url)
        await server.__aenter__()
        try:
            if server.max_model_len < at_least:
                raise VllmServerError(f"it serves a context of {server.max_model_len} tokens, the others {at_least}")
            if source != server.model:
                await server.reload(source)
            server.version = version
        except BaseException:
            await server.__aexit__(None, None, None)
            raise
        self._http = JsonClient(self.url, timeout_seconds=self._timeout, max_retries=0)
        self._left = asyncio.Event()
        self._server = server

    def leave(self) -> Awaitable[None]:
        """End a life, at once: requests under way fail with `PolicyError`. Await the result to have let go of the rest."""
        server, self._server = self._server, None
        http, self._http = self._http, None
        self._left.set()
        return _let_go(server, http)

    async def reload(self, source: Path, version: int) -> None:
        """Serve other weights, called `version`."""
        await self._living.reload(source)
        self._living.version = version

    async def post(self, path: str, body: Mapping[str, Any], read: Callable[[Any], T]) -> T:
        """One try; the body's `model` becomes the server's name of it."""
        server, http, left = self._living, self._http, self._left
        assert http is not None
        self.in_flight += 1
        request = asyncio.ensure_future(http.post(path, {**body, "model": server.served_name}, read))
        end = asyncio.ensure_future(left.wait())
        try:
            await asyncio.wait((request, end), return_when=asyncio.FIRST_COMPLETED)
            if not request.done():
                raise PolicyError(f"{self.url} was left out of the fleet while it worked on a request")
            return request.result()
        finally:
            self.in_flight -= 1
            for task in (request, end):
                task.cancel()
            await asyncio.gather(request, end, return_exceptions=True)


async def _let_go(server: VllmServer | None, http: JsonClient | None) -> None:
    if http is not None:
        await http.aclose()
    if server is not None:
        await server.__aexit__(None, None, None)
