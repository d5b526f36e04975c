"""An OpenAI-compatible server on the loopback for tests: scripted replies, injected faults, every request kept.

It speaks HTTP/1.1 over asyncio streams itself, because a test must be able to cut a reply in the middle.

>>> async with OpenAIStub(reply=lambda body: "hello") as stub:
...     stub.faults.append(Fault(status=429, headers={"Retry-After": "0.1"}))
...     policy = OpenAIPolicy(stub.url, "any-model")

`python tests/stubs/openai_server.py [PORT]` runs one in the foreground; `OpenAIStub.in_thread()` serves tests without
an event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

Reply = Callable[[dict[str, Any]], str]


@dataclass(frozen=True)
class Fault:
    """What happens to the next POST instead of, or before, an answer."""

    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    """Sent as it is; None sends an OpenAI error object for a status, or the ordinary reply."""
    cut: bool = False
    """Close the connection in the middle of the reply."""
    drop: bool = False
    """Close the connection without a reply."""
    delay_seconds: float = 0.0
    """Wait before replying."""


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: Any


class OpenAIStub:
    """`reply(body) -> text` answers chat completions and completions (`body["messages"]` or `body["prompt"]`).

    `completion(body) -> dict` answers /v1/completions instead where a test needs token ids. `api_key` makes other keys
    get a 401. `unknown_fields` are refused with a 400 that names the first one, as the hosted service does.
    """

    def __init__(
        self,
        reply: Reply = lambda body: "ok",
        *,
        completion: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
        model: str = "stub",
        max_model_len: int = 4096,
        api_key: str | None = None,
        unknown_fields: tuple[str, ...] = (),
        latency_seconds: float = 0.0,
        with_logprobs: bool = False,
        with_token_ids: bool = False,
        port: int = 0,
    ) -> None:
        self.reply = reply
        self.completion = completion
        self.model = model
        self.max_model_len = max_model_len
        self.api_key = api_key
        self.unknown_fields = unknown_fields
        self.latency_seconds = latency_seconds
        self.with_logprobs = with_logprobs
        self.with_token_ids = with_token_ids
        self.faults: deque[Fault] = deque()
        """Used up one a POST, in order."""
        self.requests: list[Request] = []
        self.in_flight = 0
        self.most_in_flight = 0
        self._port = port
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """Base address, with /v1."""
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def posts(self) -> list[dict[str, Any]]:
        """Bodies of the POSTs so far."""
        return [r.body for r in self.requests if r.method == "POST"]

    async def __aenter__(self) -> OpenAIStub:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port, backlog=1024)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()

    @classmethod
    @contextlib.contextmanager
    def in_thread(cls, *args: Any, **kwargs: Any) -> Iterator[OpenAIStub]:
        """The same, in an event loop of a thread of its own."""
        stub = cls(*args, **kwargs)
        ready, loop = threading.Event(), asyncio.new_event_loop()
        stop = asyncio.Event()

        async def main() -> None:
            async with stub:
                ready.set()
                await stop.wait()

        thread = threading.Thread(target=lambda: loop.run_until_complete(main()), daemon=True)
        thread.start()
        try:
            if not ready.wait(10):
                raise RuntimeError("the stub server did not start within 10 s")
            yield stub
        finally:
            loop.call_soon_threadsafe(stop.set)
            thread.join(10)
            loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            while (request := await _read_request(reader)) is not None:
                if not await self._answer(request, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._connections.discard(task)
            writer.close()

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> bool:
        """Whether the connection stays open."""
        self.requests.append(request)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            fault = self.faults.popleft() if self.faults and request.method == "POST" else Fault()
            await asyncio.sleep(fault.delay_seconds or self.latency_seconds)
            if fault.drop:
                return False
            status, data = self._result(request) if fault.status is None else _error(fault.status, "injected fault")
            payload = fault.body if fault.body is not None else json.dumps(data).encode()
            head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(payload)}\r\n"
            head += "".join(f"{name}: {value}\r\n" for name, value in fault.headers.items())
            writer.write(head.encode() + b"\r\n" + (payload[: len(payload) // 2] if fault.cut else payload))
            await writer.drain()
            return not fault.cut
        finally:
            self.in_flight -= 1

    def _result(self, request: Request) -> tuple[int, Any]:
        if self.api_key and request.headers.get("authorization") != f"Bearer {self.api_key}":
            return _error(401, "Incorrect API key provided")
        if request.path == "/v1/models":
            row = {"id": self.model, "object": "model", "max_model_len": self.max_model_len}
            return 200, {"object": "list", "data": [row]}
        if not isinstance(request.body, dict):
            return _error(400, "the body is not a JSON object")
        unknown = [name for name in self.unknown_fields if name in request.body]
        if unknown:
            return _error(400, f"Unrecognized request argument supplied: {unknown[0]}")
        if request.path == "/v1/chat/completions":
            return 200, self._chat(request.body)
        if request.path == "/v1/completions":
            if self.completion is not None:
                return 200, self.completion(request.body)
            return 200, {"choices": [{"text": self.reply(request.body), "finish_reason": "stop", "index": 0}]}
        return _error(404, f"no such path: {request.path}")

    def _chat(self, body: dict[str, Any]) -> dict[str, Any]:
        """Token ids are code points of the text; the prompt's are its words' lengths: made up, but countable."""
        text = self.reply(body)
        words = " ".join(m["content"] for m in body["messages"]).split()
        choice: dict[str, Any] = {
            "index": 0,
            "message": {"role": "assistant", "content": text},
            "finish_reason": "stop",
            "logprobs": None,
        }
        data: dict[str, Any] = {"id": "stub", "object": "chat.completion", "model": self.model, "choices": [choice]}
        if self.with_logprobs and body.get("logprobs"):
            choice["logprobs"] = {"content": [{"token": c, "logprob": -0.5} for c in text]}
        if self.with_token_ids and body.get("return_token_ids"):
            choice["token_ids"] = [ord(c) for c in text]
            data["prompt_token_ids"] = [len(w) for w in words]
        data["usage"] = {"prompt_tokens": len(words), "completion_tokens": len(text)}
        data["usage"]["total_tokens"] = len(words) + len(text)
        return data


def _error(status: int, message: str) -> tuple[int, Any]:
    return status, {"error": {"message": message, "type": "stub_error", "code": None}}


async def _read_request(reader: asyncio.StreamReader) -> Request | None:
    """The next request of a connection; None when the client has closed it."""
    first = await reader.readline()
    if not first.strip():
        return None
    method, path, _ = first.decode().split(" ", 2)
    headers: dict[str, str] = {}
    while (line := (await reader.readline()).decode().strip()) != "":
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    raw = await reader.readexactly(int(headers.get("content-length", "0")))
    try:
        body = json.loads(raw) if raw else None
    except ValueError:
        body = raw
    return Request(method, path.split("?")[0], headers, body)


async def _main(port: int) -> None:
    async with OpenAIStub(port=port) as stub:
        print(stub.url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_main(int(sys.argv[1]) if len(sys.argv) > 1 else 0))
