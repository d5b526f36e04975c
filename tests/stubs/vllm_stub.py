"""What `VllmServer` and `VllmFleet` ask of a vLLM server, on the loopback: it holds weights, can be killed and restarted."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any, Self

from aiohttp import web

from rlm_core.policies.server_process import free_port

BORN_WITH = "the weights it was started with"


class VllmStub:
    """`weights` is what it serves: the path it was given last, `BORN_WITH` after every start. While `hold` is clear no
    completion is answered. `broken` answers every completion with a 503."""

    def __init__(self, *, max_model_len: int = 256) -> None:
        self.port = free_port()
        self.max_model_len = max_model_len
        self.weights = ""
        self.bodies: list[dict[str, Any]] = []
        self.served_with: list[str] = []
        self.in_flight = 0
        self.broken = self.silent = self.refuses_weights = False
        self.hold = asyncio.Event()
        self.hold.set()
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        app = web.Application()
        app.add_routes(
            [
                web.get("/health", self._health),
                web.get("/v1/models", self._models),
                web.post("/v1/completions", self._complete),
                web.post("/collective_rpc", self._load),
                *(web.post(f"/{name}", self._done) for name in ("pause", "resume", "reset_prefix_cache")),
            ]
        )
        self.weights = BORN_WITH
        self._runner = web.AppRunner(app, shutdown_timeout=0.01)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True).start()

    async def kill(self) -> None:
        """Every connection breaks."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.kill()

    async def _health(self, _: web.Request) -> web.Response:
        if self.silent:
            await asyncio.sleep(60)
        return web.Response()

    async def _models(self, _: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": f"m{self.port}", "max_model_len": self.max_model_len}]})

    async def _load(self, request: web.Request) -> web.Response:
        if self.refuses_weights:
            return web.json_response({"error": {"message": "no such method"}}, status=400)
        path = Path((await request.json())["kwargs"]["weights_path"])
        assert list(path.glob("*.safetensors")), f"{path} holds no weights"
        self.weights = path.name
        return web.json_response({})

    async def _done(self, _: web.Request) -> web.Response:
        return web.json_response({"success": True})

    async def _complete(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.bodies.append(body)
        self.in_flight += 1
        try:
            await self.hold.wait()
        finally:
            self.in_flight -= 1
        if self.broken:
            return web.json_response({"error": {"message": "engine is confused"}}, status=503)
        self.served_with.append(self.weights)
        end = body["stop_token_ids"][0]
        choice = {
            "token_ids": [end],
            "logprobs": {"tokens": [f"token_id:{end}"], "token_logprobs": [-0.5]},
            "finish_reason": "stop",
        }
        return web.json_response({"choices": [choice]})


async def until(condition: Any, seconds: float = 30.0) -> None:
    """Wait for something that other tasks bring about."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while not condition():  # noqa: ASYNC110 - any condition of any test
                await asyncio.sleep(0.01)
    assert condition()
