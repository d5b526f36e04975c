"""JSON over HTTP with the patience that model servers need: time limits, back-off with jitter, clear errors.

One aiohttp session an event loop, no thread a call; hundreds of calls may wait at once. (httpx was measured first: its
connection pool looks at every connection on each event, which costs seconds of CPU at 300 calls in flight.)
"""

from __future__ import annotations

import asyncio
import contextlib
import email.utils
import json
import logging
import math
import random
import time
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import aiohttp

from rlm_core.policies.base import PolicyError
from rlm_core.policies.pace import Pace

log = logging.getLogger("rlm.http")

T = TypeVar("T")

_RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})
_LONGEST_WAIT_SECONDS = 60.0


class MalformedReply(ValueError):
    """Raised by a reader of replies: what came is not what was asked for. The call is tried again."""


class HttpError(PolicyError):
    """The server refused for a reason that another try will not change."""

    def __init__(self, message: str, status: int, body: str) -> None:
        super().__init__(message)
        self.status = status
        self.body = body


class JsonClient:
    """Posts JSON to one server.

    `max_retries` counts tries after the first, on refused or broken connections, time limits, 408, 409, 425, 429, 5xx and
    unreadable replies; waits double from half a second, with jitter, and `Retry-After` is obeyed up to a minute.
    `max_concurrency` bounds calls in flight; None leaves that to the caller. `per_minute` bounds the rate at which tries
    begin. `give_up` is asked before each further try
    and returns a reason to stop (the server's process is dead), or None.
    """

    def __init__(
        self,
        base_url: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float = 120.0,
        max_retries: int = 5,
        max_concurrency: int | None = None,
        per_minute: int | None = None,
        first_wait_seconds: float = 0.5,
        key_hint: str = "",
        give_up: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._session: aiohttp.ClientSession | None = None
        if not base_url.startswith(("http://", "https://")):
            raise ValueError(f"{base_url!r} is not an address; expected http://HOST:PORT/... or https://...")
        self.base_url = base_url.rstrip("/")
        self.timeout_seconds = timeout_seconds
        self.max_retries = max_retries
        self.retries = 0
        """Tries after the first, over all calls so far."""
        self._headers = dict(headers or {})
        self._first_wait = first_wait_seconds
        self._key_hint = key_hint
        self._give_up = give_up
        self._max_concurrency = max_concurrency
        self._pace = Pace(per_minute)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._slots: asyncio.Semaphore | None = None
        self._jitter = random.Random()

    async def post(self, path: str, body: Mapping[str, Any], read: Callable[[Any], T]) -> T:
        """POST `body` and return `read(reply)`; `read` raises `MalformedReply` for a reply that it cannot use.

        Raises `HttpError` for a refusal that stands, `PolicyError` when all tries are used up.
        """
        return await self._call("POST", path, body, read)

    async def get(self, path: str, read: Callable[[Any], T]) -> T:
        """GET, otherwise as `post`."""
        return await self._call("GET", path, None, read)

    async def _call(self, method: str, path: str, body: Mapping[str, Any] | None, read: Callable[[Any], T]) -> T:
        url = f"{self.base_url}/{path.lstrip('/')}"
        for attempt in range(self.max_retries + 1):
            wait: float | None = None
            try:
                reply = await self._send(method, url, body)
                if reply.status < 300:
                    return read(_json(reply.text))
                if reply.status not in _RETRIED or _quota_is_spent(reply):
                    raise self._refusal(reply, url)
                reason = f"HTTP {reply.status}: {_excerpt(reply.text)}"
                wait = _seconds_to_wait(reply.retry_after)
            except MalformedReply as error:
                reason = f"unreadable reply: {error}"
            except TimeoutError:
                reason = f"no reply within {self.timeout_seconds:g} s"
            except (aiohttp.ClientError, ConnectionError) as error:
                reason = f"{type(error).__name__}: {error or 'connection lost'}"
            dead = self._give_up()
            if dead:
                raise PolicyError(dead)
            if attempt == self.max_retries:
                break
            self.retries += 1
            if wait is None:
                wait = min(_LONGEST_WAIT_SECONDS, self._first_wait * 2**attempt) * self._jitter.uniform(0.5, 1.5)
            else:
                wait += self._jitter.uniform(0, 0.1 * wait + 0.05)
            log.log(logging.WARNING if attempt else logging.INFO, "%s: %s; trying again in %.1f s", url, reason, wait)
            await asyncio.sleep(wait)
        raise PolicyError(
            f"{url}: gave up after {self.max_retries + 1} tries; the last: {reason}. Check that the server runs and that "
            "this machine reaches it"
        )

    async def _send(self, method: str, url: str, body: Mapping[str, Any] | None) -> _Reply:
        session = self._open()
        async with self._slots or contextlib.nullcontext():
            await self._pace.turn()
            async with session.request(method, url, json=body) as reply:
                text = (await reply.read()).decode("utf-8", errors="replace")
                return _Reply(reply.status, text, reply.headers.get("Retry-After", ""))

    def _refusal(self, reply: _Reply, url: str) -> HttpError:
        status, said = reply.status, _excerpt(reply.text)
        remedy = ""
        if status in (401, 403):
            remedy = self._key_hint or "the server wants a key"
        elif status == 404:
            remedy = "check the address (it usually ends in /v1) and the model's name"
        elif status == 429:
            remedy = "the account's quota is spent"
        return HttpError(f"{url}: HTTP {status}: {said}" + (f"; {remedy}" if remedy else ""), status, reply.text)

    def _open(self) -> aiohttp.ClientSession:
        """The session of the running event loop: connections cannot be used from another."""
        loop = asyncio.get_running_loop()
        if self._session is None or self._loop is not loop or self._session.closed:
            self._drop()
            self._loop = loop
            self._session = aiohttp.ClientSession(
                headers=self._headers,
                # a server drops idle connections after some seconds (uvicorn: 5): never write into one that it dropped
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=2.0),
                timeout=aiohttp.ClientTimeout(total=self.timeout_seconds),
                trust_env=_is_remote(self.base_url),
            )
            self._slots = asyncio.Semaphore(self._max_concurrency) if self._max_concurrency else None
        return self._session

    def _drop(self) -> None:
        """Let go of a session whose event loop may be gone, quietly."""
        session, self._session = self._session, None
        if session is None or session.closed:
            return
        connector = session.connector
        session.detach()
        if connector is not None:
            # nobody is left to await this; its first step closes the sockets, unless they went with their loop
            with contextlib.suppress(RuntimeError, StopIteration):
                next(connector.close().__await__())

    def __del__(self) -> None:
        self._drop()

    async def aclose(self) -> None:
        session, self._session = self._session, None
        if session is not None and self._loop is asyncio.get_running_loop():
            await session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


@dataclass(frozen=True, slots=True)
class _Reply:
    status: int
    text: str
    retry_after: str
    """The header Retry-After, or empty."""


def _is_remote(base_url: str) -> bool:
    """Proxies from the environment are for these, not for servers of this machine."""
    return urllib.parse.urlsplit(base_url).hostname not in ("127.0.0.1", "localhost", "::1")


def _json(text: str) -> Any:
    """The parsed reply; None for an empty one, which some commands give."""
    if not text:
        return None
    try:
        return json.loads(text)
    except ValueError as error:
        raise MalformedReply(f"not JSON ({error}): {text[:120]!r}") from error


def _excerpt(text: str, length: int = 300) -> str:
    """What the server says is wrong, in one line."""
    try:
        data = json.loads(text)
    except ValueError:
        return " ".join(text.split())[:length] or "no explanation"
    error = data.get("error", data) if isinstance(data, dict) else data
    said = error.get("message", error) if isinstance(error, dict) else error
    return " ".join(str(said).split())[:length]


def _quota_is_spent(reply: _Reply) -> bool:
    return reply.status == 429 and "insufficient_quota" in reply.text


def _seconds_to_wait(retry_after: str) -> float | None:
    """Seconds that the server asks to wait: a number, or a date; None when it says nothing readable."""
    value = retry_after.strip()
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - time.time()
        except (TypeError, ValueError):
            return None
    return min(_LONGEST_WAIT_SECONDS, max(0.0, seconds)) if math.isfinite(seconds) else None
