"""Structured answers from an OpenAI-compatible endpoint: JSON by schema, with retries, and a parser for servers without it.

`StructuredChat.ask` returns what `parse` makes of the model's JSON object. Refused connections, timeouts, 429, 5xx and
replies that cannot be read are tried again with doubling back-off; what a person must mend (address, key, model name)
fails at once, saying so.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx

from rlm_core.params import EndpointParams
from rlm_core.policies.pace import Pace

log = logging.getLogger("rlm.endpoint")
T = TypeVar("T")

FIRST_WAIT_SECONDS = 1.0
MAX_WAIT_SECONDS = 60.0
_THINKING = re.compile(r"<think>.*?</think>", re.DOTALL)


class ChatError(RuntimeError):
    """The endpoint gave no usable answer; the message says what it said, after how many attempts, and what to do."""


class ChatRefused(ChatError):
    """What a person must mend: the key, the address, the model's name."""


class ChatSilent(ChatError):
    """The last attempt got no reply either: no connection, a timeout, 429, 5xx."""


class Unreadable(ValueError):
    """A reply that is no JSON object, or not the one asked for."""


@dataclass
class ChatUsage:
    """What the endpoint was asked so far, failed attempts included where they were counted."""

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    retries: int = 0


class StructuredChat:
    """One endpoint and one model. Usable from several event loops, one after the other."""

    def __init__(
        self,
        endpoint: EndpointParams,
        *,
        first_wait_seconds: float = FIRST_WAIT_SECONDS,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.endpoint = endpoint
        self.usage = ChatUsage()
        self._first_wait = first_wait_seconds
        self._transport = transport
        self._schema_works = True
        self._client: httpx.AsyncClient | None = None
        self._gate = asyncio.Semaphore(endpoint.max_concurrency)
        self._pace = Pace(endpoint.requests_per_minute)
        self._loop: asyncio.AbstractEventLoop | None = None

    async def ask(
        self,
        messages: Sequence[Mapping[str, str]],
        schema: Mapping[str, Any],
        parse: Callable[[dict[str, Any]], T],
        *,
        max_tokens: int = 1024,
    ) -> T:
        """The parsed answer; `parse` raises `Unreadable` for an object it cannot take. Raises `ChatError`."""
        client = self._bind()
        attempts = self.endpoint.max_retries + 1
        wait, told = self._first_wait, list(messages)
        problem, silent = "", False
        for attempt in range(attempts):
            if attempt:
                self.usage.retries += 1
                await asyncio.sleep(wait)
                wait = min(2 * wait, MAX_WAIT_SECONDS)
            try:
                async with self._gate:
                    response = await self._post(client, told, schema, max_tokens)
            except httpx.HTTPError as error:
                problem, silent = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__, True
                continue
            if response.status_code == 429 or response.status_code >= 500:
                problem, silent = f"HTTP {response.status_code}: {response.text[:200]}", True
                wait = max(wait, _retry_after(response))
                continue
            if response.status_code >= 400:
                raise ChatRefused(self._refusal(response))
            try:
                text = self._text_of(response)
                return parse(find_object(text))
            except Unreadable as error:
                problem, silent = str(error), False
                again = f"Your last reply could not be read ({error}). Reply with the JSON object only."
                told = [*messages, {"role": "user", "content": again}]
        kind = ChatSilent if silent else ChatError
        raise kind(f"{self._where()}: no usable answer in {attempts} attempts; the last problem: {problem}")

    def _bind(self) -> httpx.AsyncClient:
        """The client of the running event loop; a client of an earlier loop is left to it."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            key = os.environ.get(self.endpoint.api_key_env, "")
            headers = {"Authorization": f"Bearer {key}"} if key else {}
            self._client = httpx.AsyncClient(
                timeout=self.endpoint.timeout_seconds, headers=headers, transport=self._transport
            )
            self._gate = asyncio.Semaphore(self.endpoint.max_concurrency)
            self._loop = loop
        return self._client

    async def aclose(self) -> None:
        if self._client is not None and self._loop is asyncio.get_running_loop():
            await self._client.aclose()
        self._client = None

    async def _post(
        self,
        client: httpx.AsyncClient,
        messages: Sequence[Mapping[str, str]],
        schema: Mapping[str, Any],
        max_tokens: int,
    ) -> httpx.Response:
        body: dict[str, Any] = {
            "model": self.endpoint.model,
            "messages": list(messages),
            "temperature": 0,
            "seed": 0,
            "max_tokens": max_tokens,
        }
        if self._schema_works:
            form = {"name": "reply", "schema": dict(schema), "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        url = f"{self.endpoint.base_url.rstrip('/')}/chat/completions"
        await self._pace.turn()
        self.usage.requests += 1
        response = await client.post(url, json=body)
        if response.status_code in (400, 422) and "response_format" in body and _about_format(response.text):
            log.warning("%s takes no JSON schema; asking for JSON in words from now on", self._where())
            self._schema_works = False
            return await self._post(client, messages, schema, max_tokens)
        return response

    def _text_of(self, response: httpx.Response) -> str:
        try:
            reply = response.json()
            text = reply["choices"][0]["message"]["content"]
        except (ValueError, KeyError, IndexError, TypeError):
            raise Unreadable(f"not a chat completion: {response.text[:200]!r}") from None
        usage = reply.get("usage") or {}
        self.usage.prompt_tokens += int(usage.get("prompt_tokens") or 0)
        self.usage.completion_tokens += int(usage.get("completion_tokens") or 0)
        if not isinstance(text, str):
            raise Unreadable("the reply has no text")
        return text

    def _refusal(self, response: httpx.Response) -> str:
        said = f"{self._where()}: HTTP {response.status_code}: {response.text[:300]}"
        if response.status_code in (401, 403):
            return f"{said}; set the environment variable {self.endpoint.api_key_env} to a key that may use this model"
        if response.status_code == 404:
            return f"{said}; check base_url (it usually ends in /v1) and the model's name"
        return said

    def _where(self) -> str:
        return f"{self.endpoint.base_url} (model {self.endpoint.model})"


def _retry_after(response: httpx.Response) -> float:
    try:
        return min(float(response.headers.get("retry-after", "0")), MAX_WAIT_SECONDS)
    except ValueError:
        return 0.0


def _about_format(message: str) -> bool:
    return any(word in message for word in ("response_format", "json_schema", "guided", "structured"))


def find_object(text: str) -> dict[str, Any]:
    """The last complete JSON object that stands in a text at top level; raises `Unreadable` when there is none.

    Thinking in <think> tags and code fences are passed over; braces inside strings do not count.
    """
    text = _THINKING.sub("", text)
    decoder = json.JSONDecoder()
    found: dict[str, Any] | None = None
    at = text.find("{")
    while at >= 0:
        try:
            value, end = decoder.raw_decode(text, at)
        except json.JSONDecodeError:
            end = at + 1
        else:
            found = value if isinstance(value, dict) else found
        at = text.find("{", end)
    if found is None:
        raise Unreadable(f"no JSON object in {text[:120]!r}")
    return found
