"""The policy behind an OpenAI-compatible chat endpoint: a teacher, a judge's model, a question writer."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from rlm_core.params import EndpointParams
from rlm_core.policies.base import Action, Message, PolicyError, PromptTooLong, Sampling, as_messages
from rlm_core.policies.http import HttpError, JsonClient, MalformedReply

_TOO_LONG = (
    "context_length_exceeded",
    "maximum context length",
    "context window",
    "too many tokens",
    "prompt is too long",
)
_OPTIONAL = ("return_token_ids", "logprobs", "seed", "top_p")
"""Fields of a request that an endpoint may refuse; the policy then goes on without them."""


@dataclass(slots=True)
class EndpointUsage:
    """What the endpoint counted, over all calls of a policy so far."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    retries: int = 0


class OpenAIPolicy:
    """Samples from `{base_url}/chat/completions`.

    The key is read from the environment variable `api_key_env` at the first call; none is sent when it is not set.
    Token ids and logprobs are asked for and given where the endpoint has them (vLLM gives both). Fields that the
    endpoint refuses (`seed`, `logprobs`, ...) are left out from then on; `max_tokens` becomes `max_completion_tokens`
    where only that is known. `extra_body` is added to every request, e.g. `{"reasoning_effort": "low"}`.

    `max_retries` counts tries after the first; see `JsonClient` for what is tried again.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key_env: str = "OPENAI_API_KEY",
        timeout_seconds: float = 120.0,
        max_retries: int = 5,
        max_concurrency: int = 8,
        requests_per_minute: int | None = None,
        extra_body: Mapping[str, Any] | None = None,
    ) -> None:
        self.model = model
        self.usage = EndpointUsage()
        self._extra_body = dict(extra_body or {})
        self._refused: set[str] = set()
        key = os.environ.get(api_key_env, "")
        base_url = base_url.rstrip("/").removesuffix("/chat/completions")
        self._http = JsonClient(
            base_url,
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout_seconds=timeout_seconds,
            max_retries=max_retries,
            max_concurrency=max_concurrency,
            per_minute=requests_per_minute,
            key_hint=f"the key in {api_key_env} is not accepted"
            if key
            else f"set the environment variable {api_key_env} to your key",
        )

    @classmethod
    def from_params(cls, params: EndpointParams, **options: Any) -> Self:
        """From an endpoint section of params.yaml."""
        return cls(
            params.base_url,
            params.model,
            api_key_env=params.api_key_env,
            timeout_seconds=params.timeout_seconds,
            max_retries=params.max_retries,
            max_concurrency=params.max_concurrency,
            requests_per_minute=params.requests_per_minute,
            **options,
        )

    @property
    def name(self) -> str:
        return f"endpoint:{self.model}"

    async def act(self, messages: Sequence[Message | Mapping[str, Any]], sampling: Sampling) -> Action:
        """One completion; raises `PromptTooLong`, or `PolicyError` when the endpoint fails after all retries."""
        start = time.monotonic()
        reply = await self._post(self._body(messages, sampling))
        self.usage.calls += 1
        self.usage.prompt_tokens += reply.prompt_tokens
        self.usage.completion_tokens += reply.completion_tokens
        self.usage.retries = self._http.retries
        return Action(
            text=reply.text,
            prompt_ids=reply.prompt_ids,
            completion_ids=reply.completion_ids,
            logprobs=reply.logprobs,
            finish_reason=reply.finish_reason,
            prompt_tokens=reply.prompt_tokens,
            completion_tokens=reply.completion_tokens,
            seconds=time.monotonic() - start,
        )

    def _body(self, messages: Sequence[Message | Mapping[str, Any]], sampling: Sampling) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [{"role": m.role, "content": m.content} for m in as_messages(messages)],
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "logprobs": True,
            "return_token_ids": True,
        }
        if sampling.seed is not None:
            body["seed"] = sampling.seed
        return body | self._extra_body

    async def _post(self, body: dict[str, Any]) -> _Reply:
        """Post, leaving out one by one the fields that the endpoint names as unknown, then all optional ones."""
        while True:
            sent = {_RENAMED.get(k, k) if k in self._refused else k: v for k, v in body.items() if self._sends(k)}
            try:
                return await self._http.post("chat/completions", sent, _read_reply)
            except HttpError as error:
                if error.status == 400 and any(sign in error.body for sign in _TOO_LONG):
                    raise PromptTooLong(str(error)) from error
                if error.status not in (400, 422):
                    raise
                culprits = self._culprits(sent, error.body)
                if not culprits:
                    raise
                self._refused |= culprits

    def _sends(self, field: str) -> bool:
        return field not in self._refused or field in _RENAMED

    def _culprits(self, sent: Mapping[str, Any], said: str) -> set[str]:
        """Fields to leave out after a refusal that says `said`; empty when nothing is left to leave out."""
        renamed = {f for f in _RENAMED if f in sent and f in said and f not in self._extra_body}
        candidates = {f for f in (*_OPTIONAL, "temperature") if f in sent and f not in self._extra_body}
        named = {f for f in candidates if f in said}
        return renamed or named or (candidates & {"return_token_ids", "logprobs"})

    async def aclose(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


_RENAMED = {"max_tokens": "max_completion_tokens"}


@dataclass(frozen=True, slots=True)
class _Reply:
    text: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    logprobs: tuple[float, ...]


def _read_reply(data: Any) -> _Reply:
    """Ids without a logprob each, or logprobs of other tokens, are dropped: better none than wrong ones."""
    try:
        choice = data["choices"][0]
        message = choice["message"]
        text = message.get("content")
        if text is None and choice.get("finish_reason") == "length":
            text = ""  # all tokens went into reasoning
        if not isinstance(text, str):
            raise MalformedReply(f"no text in the reply (finish reason {choice.get('finish_reason')!r})")
        usage = data.get("usage") or {}
        logprobs = tuple(float(t["logprob"]) for t in (choice.get("logprobs") or {}).get("content") or ())
        completion_ids = tuple(int(i) for i in choice.get("token_ids") or ())
        prompt_ids = tuple(int(i) for i in data.get("prompt_token_ids") or ())
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, MalformedReply):
            raise
        raise MalformedReply(f"not a chat completion ({error!r})") from error
    if completion_ids and logprobs and len(completion_ids) != len(logprobs):
        completion_ids = logprobs = ()
    return _Reply(
        text=text,
        finish_reason="length" if choice.get("finish_reason") == "length" else "stop",
        prompt_tokens=int(usage.get("prompt_tokens") or len(prompt_ids)),
        completion_tokens=int(usage.get("completion_tokens") or len(completion_ids) or len(logprobs)),
        prompt_ids=prompt_ids,
        completion_ids=completion_ids,
        logprobs=logprobs,
    )


__all__ = ["EndpointUsage", "OpenAIPolicy", "PolicyError"]
