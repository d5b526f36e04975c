"""The HTTP side: /v1/models, /v1/papers, /v1/chat/completions, /health. A client that goes away takes its tree with it."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from rlm_core.records import Rollout, Status
from rlm_core.serving.answers import answer_text, finish_reason, rlm_fields, usage_of
from rlm_core.serving.citations import cite
from rlm_core.serving.clients import unless_gone
from rlm_core.serving.requests import BadRequest, read_request
from rlm_core.serving.service import RlmService
from rlm_core.serving.stream import EventStream

log = logging.getLogger("rlm.serving")

MOST_BYTES = 1_000_000
"""Of a request's body."""
CLIENT_GONE = 499
"""For the log: nobody reads this reply."""


def make_app(service: RlmService, *, api_key: str | None = None) -> Starlette:
    """The ASGI application around a service. With `api_key`, requests to /v1 must bring it as a bearer token."""
    started = int(time.time())
    card = {"id": service.model, "object": "model", "created": started, "owned_by": "rlm-forge"}

    async def models(_: Request) -> Response:
        return JSONResponse({"object": "list", "data": [card]})

    async def model(request: Request) -> Response:
        if request.path_params["name"] != service.model:
            raise BadRequest(
                f"no model '{request.path_params['name']}'; there is '{service.model}'",
                status=404,
                code="model_not_found",
            )
        return JSONResponse(card)

    async def papers(_: Request) -> Response:
        rows = [{"id": p.id, "title": p.title, "pages": len(p.pages)} for p in service.library.values()]
        return JSONResponse({"object": "list", "data": rows})

    async def health(_: Request) -> Response:
        return JSONResponse({"status": "ok", "running": service.running})

    async def chat(request: Request) -> Response:
        asked = read_request(await _body(request))
        query = service.check(asked)
        service.refuse_if_full()
        head = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": service.model}
        if asked.stream:
            return EventStream(service, query, asked, head)

        async def whole() -> Response:
            async with service.place():
                rollout = await service.answer(query, asked)
            return JSONResponse(await _reply(rollout, service, head))

        return await unless_gone(request.receive, whole()) or Response(status_code=CLIENT_GONE)

    def guarded(endpoint: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        async def checked(request: Request) -> Response:
            if api_key is not None:
                given = request.headers.get("authorization", "").removeprefix("Bearer ")
                if not hmac.compare_digest(given.encode(), api_key.encode()):
                    raise BadRequest("the key is missing or wrong: send Authorization: Bearer KEY", status=401)
            return await endpoint(request)

        return checked

    return Starlette(
        routes=[
            Route("/health", health),
            Route("/v1/models", guarded(models)),
            Route("/v1/models/{name:path}", guarded(model)),
            Route("/v1/papers", guarded(papers)),
            Route("/v1/chat/completions", guarded(chat), methods=["POST"]),
        ],
        exception_handlers={BadRequest: _told, HTTPException: _told, Exception: _broken},
    )


async def _body(request: Request) -> Any:
    """The JSON of a request. Other content types are refused, so that no web page can post here without being asked."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise BadRequest("send the header Content-Type: application/json", status=415)
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > MOST_BYTES:
            raise BadRequest(f"the body is over {MOST_BYTES} bytes", status=413)
    try:
        return json.loads(body)
    except ValueError as error:
        raise BadRequest(f"the body is not JSON: {error}") from None


async def _reply(rollout: Rollout, service: RlmService, head: dict[str, Any]) -> dict[str, Any]:
    if rollout.status is Status.FAILED:
        raise BadRequest(rollout.failure, status=502, code="policy_failed")
    cited = await asyncio.to_thread(cite, rollout, service.library)
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": answer_text(cited)},
        "finish_reason": finish_reason(rollout),
    }
    return {
        **head,
        "object": "chat.completion",
        "choices": [choice],
        "usage": usage_of(rollout),
        "rlm": rlm_fields(rollout, cited),
    }


async def _told(_: Request, error: Exception) -> Response:
    """Errors as the clients of such endpoints expect them."""
    if isinstance(error, BadRequest):
        status, headers = error.status, {"Retry-After": "5"} if error.status == 429 else {}
        return JSONResponse(
            error_body(str(error), status, error.param, error.code), status_code=status, headers=headers
        )
    assert isinstance(error, HTTPException)
    told = f"{error.detail}; there are /v1/models, /v1/papers and POST /v1/chat/completions"
    return JSONResponse(error_body(told, error.status_code), status_code=error.status_code, headers=error.headers)


async def _broken(_: Request, error: Exception) -> Response:
    log.error("a request failed", exc_info=error)
    return JSONResponse(error_body(f"{type(error).__name__}: see the server's log", 500), status_code=500)


def error_body(message: str, status: int, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    kind = "invalid_request_error" if status < 500 and status != 429 else "server_error"
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}
