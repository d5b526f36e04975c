"""A tree as server-sent events: the trajectory as reasoning while it runs, then the answer with its evidence."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from rlm_core.printable import printable
from rlm_core.records import Query, Rollout, Status
from rlm_core.rollouts import Event
from rlm_core.serving.answers import answer_text, finish_reason, rlm_fields, usage_of
from rlm_core.serving.citations import cite
from rlm_core.serving.clients import unless_gone
from rlm_core.serving.requests import BadRequest, ChatRequest
from rlm_core.serving.service import RlmService

log = logging.getLogger("rlm.serving")

SILENT_SECONDS = 10.0
"""After so long without an event a comment is sent, so that nobody between takes the connection for dead."""
SHOWN_CHARS = 2000
"""Of a turn's text, and of what its code printed."""


class EventStream(Response):
    """`chat.completion.chunk` objects: `delta.reasoning_content` tells what the tree does, `delta.content` is the answer,
    the last chunk has `finish_reason` and the field `rlm` with the evidence. A failure is one event `{"error": ...}`."""

    media_type = "text/event-stream"

    def __init__(self, service: RlmService, query: Query, request: ChatRequest, head: dict[str, Any]) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._service, self._query, self._request, self._head = service, query, request, head

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await unless_gone(receive, self._send(send))

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async with contextlib.aclosing(self._texts()) as texts:
            async for text in texts:
                await send({"type": "http.response.body", "body": text.encode(), "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _texts(self) -> AsyncGenerator[str, None]:
        """Events as they go over the wire."""
        told: asyncio.Queue[str] = asyncio.Queue()

        def observe(event: Event) -> None:
            if line := narrate(event):
                told.put_nowait(line)

        async def work() -> Rollout:
            async with self._service.place():
                return await self._service.answer(self._query, self._request, observe)

        task = asyncio.ensure_future(work())
        try:
            yield self._chunk({"role": "assistant", "content": ""})
            async for line in _until_done(task, told):
                yield self._chunk({"reasoning_content": line}) if line else ": still at work\n\n"
            rollout = task.result()
            if rollout.status is Status.FAILED:
                raise BadRequest(rollout.failure, code="policy_failed")
            cited = await asyncio.to_thread(cite, rollout, self._service.library)
            yield self._chunk({"content": answer_text(cited)})
            yield self._chunk({}, finish_reason(rollout), rlm=rlm_fields(rollout, cited))
            if self._request.stream_options.include_usage:
                yield _event(
                    {**self._head, "object": "chat.completion.chunk", "choices": [], "usage": usage_of(rollout)}
                )
        except BadRequest as error:
            yield _event({"error": {"message": str(error), "type": "server_error", "param": None, "code": error.code}})
        except Exception as error:
            log.exception("a stream failed")
            told_type = f"{type(error).__name__}: see the server's log"
            yield _event({"error": {"message": told_type, "type": "server_error", "param": None, "code": None}})
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        yield "data: [DONE]\n\n"

    def _chunk(self, delta: dict[str, Any], finish: str | None = None, **fields: Any) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return _event({**self._head, "object": "chat.completion.chunk", "choices": [choice], **fields})


async def _until_done(task: asyncio.Future[Rollout], told: asyncio.Queue[str]) -> AsyncIterator[str]:
    """What is told until the task ends; an empty text after a long silence."""
    while not task.done() or not told.empty():
        line = asyncio.ensure_future(told.get())
        await asyncio.wait((task, line), timeout=SILENT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if line.done():
            yield line.result()
            continue
        line.cancel()
        if not task.done():
            yield ""


def narrate(event: Event) -> str:
    """An event of a tree as text for people; empty for what they need not see."""
    who = f"[{event.node_id}] " if event.depth else ""
    if event.kind == "node_start" and event.depth:
        return f"{who}child: {_short(event.text)}\n"
    if event.kind == "action":
        return f"{who}turn {event.turn + 1}\n{_short(event.text)}\n"
    if event.kind == "observation" and event.text:
        return f"{who}output\n{_short(event.text)}\n"
    if event.kind == "call":
        return f"{who}model call: {_short(event.text)}\n"
    if event.kind == "node_end" and event.depth:
        return f"{who}{event.data['status']}\n"
    return ""


def _short(text: str) -> str:
    shown = printable(text.strip())
    return (
        shown
        if len(shown) <= SHOWN_CHARS
        else f"{shown[:SHOWN_CHARS]} ... ({len(shown) - SHOWN_CHARS} more characters)"
    )


def _event(data: dict[str, Any]) -> str:
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n"
