"""JSON over HTTP with the patience that model servers need: time limits, back-off with jitter, clear errors.

One `httpx.AsyncClient`, no thread a call; hundreds of calls may wait at once.
"""

from __future__ import annotations

import asyncio
import email.utils
import logging
import random
import time
from collections.abc import Callable, Mapping
from typing import Any, Self, TypeVar

import httpx

from rlm_core.policies.base import PolicyError

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
    `max_concurrency` bounds calls in flight; None leaves that to the caller. `give_up` is asked before each further try
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
        first_wait_seconds: float = 0.5,
        key_hint: str = "",
        give_up: Callable[[], str | None] = lambda: None,
    ) -> None:
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
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: httpx.AsyncClient | None = None
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
        client = self._open()
        for attempt in range(self.max_retries + 1):
            wait: float | None = None
            try:
                reply = await self._send(client, method, url, body)
                if reply.is_success:
                    return read(_json(reply))
                if reply.status_code not in _RETRIED or _quota_is_spent(reply):
                    raise self._refusal(reply, url)
                reason = f"HTTP {reply.status_code}: {_excerpt(reply)}"
                wait = _retry_after(reply)
            except MalformedReply as error:
                reason = f"unreadable reply: {error}"
            except (httpx.TimeoutException, TimeoutError):
                reason = f"no reply within {self.timeout_seconds:g} s"
            except httpx.TransportError as error:
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

    async def _send(
        self, client: httpx.AsyncClient, method: str, url: str, body: Mapping[str, Any] | None
    ) -> httpx.Response:
        if self._slots is None:
            async with asyncio.timeout(self.timeout_seconds):
                return await client.request(method, url, json=body)
        async with self._slots, asyncio.timeout(self.timeout_seconds):
            return await client.request(method, url, json=body)

    def _refusal(self, reply: httpx.Response, url: str) -> HttpError:
        status, said = reply.status_code, _excerpt(reply)
        remedy = ""
        if status in (401, 403):
            remedy = self._key_hint or "the server wants a key"
        elif status == 404:
            remedy = "check the address (it usually ends in /v1) and the model's name"
        elif status == 429:
            remedy = "the account's quota is spent"
        return HttpError(f"{url}: HTTP {status}: {said}" + (f"; {remedy}" if remedy else ""), status, reply.text)

    def _open(self) -> httpx.AsyncClient:
        """The client of the running event loop: connections cannot be used from another."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop or self._client.is_closed:
            self._loop = loop
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=256)
            self._client = httpx.AsyncClient(
                headers=self._headers,
                timeout=httpx.Timeout(self.timeout_seconds),
                limits=limits,
                trust_env=_trust(self.base_url),
            )
            self._slots = asyncio.Semaphore(self._max_concurrency) if self._max_concurrency else None
        return self._client

    async def aclose(self) -> None:
        if self._client is not None and self._loop is asyncio.get_running_loop():
            await self._client.aclose()
        self._client = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _trust(base_url: str) -> bool:
    """Proxies from the environment, except for servers of this machine."""
    return httpx.URL(base_url).host not in ("127.0.0.1", "localhost", "::1")


def _json(reply: httpx.Response) -> Any:
    try:
        return reply.json()
    except ValueError as error:
        raise MalformedReply(f"not JSON ({error}): {reply.text[:120]!r}") from error


def _excerpt(reply: httpx.Response, length: int = 300) -> str:
    """What the server says is wrong, in one line."""
    try:
        data = reply.json()
    except ValueError:
        return " ".join(reply.text.split())[:length] or reply.reason_phrase
    error = data.get("error", data) if isinstance(data, dict) else data
    said = error.get("message", error) if isinstance(error, dict) else error
    return " ".join(str(said).split())[:length]


def _quota_is_spent(reply: httpx.Response) -> bool:
    return reply.status_code == 429 and "insufficient_quota" in reply.text


def _retry_after(reply: httpx.Response) -> float | None:
    """Seconds that the server asks to wait: a number, or a date; None when it says nothing readable."""
    value = reply.headers.get("retry-after", "").strip()
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - time.time()
        except (TypeError, ValueError):
            return None
    return min(_LONGEST_WAIT_SECONDS, max(0.0, seconds)) if seconds == seconds else None
