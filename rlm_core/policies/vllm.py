"""The policy behind a vLLM server: token ids in, token ids and their logprobs as sampled out."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Self, TypeVar

from rlm_core.policies.base import Action, Message, PolicyError, PromptTooLong, Sampling
from rlm_core.policies.http import HttpError, JsonClient, MalformedReply
from rlm_core.policies.models import load_tokenizer
from rlm_core.policies.rendering import ChatRenderer
from rlm_core.policies.vllm_fleet import VllmFleet
from rlm_core.policies.vllm_server import VllmServer

T = TypeVar("T")

_TOO_LONG = ("maximum context length", "max_model_len", "maximum model length", "longer than the maximum", "too long")


class VllmPolicy:
    """Samples from a `VllmServer`, a `VllmFleet` of several, or from any vLLM server by its address (http://HOST:PORT).

    The server should run with `--logprobs-mode processed_logprobs` (a `VllmServer` does): logprobs are then those of
    the distribution that was sampled, temperature and top_p included. Without a `renderer` the tokenizer of the
    `VllmServer`'s model makes one. `model` and the context length are asked from
    the server when not given. Only temperature and top_p shape the distribution: the top-k, min-p and penalties that a
    model's generation_config.json may bring are switched off.
    """

    def __init__(
        self,
        server: VllmServer | VllmFleet | str,
        renderer: ChatRenderer | None = None,
        *,
        model: str | None = None,
        max_model_len: int | None = None,
        stop_ids: Sequence[int] = (),
        timeout_seconds: float = 600.0,
        max_retries: int = 6,
        api_key: str | None = None,
    ) -> None:
        self._server = None if isinstance(server, str) else server
        self._fleet = server if isinstance(server, VllmFleet) else None
        if renderer is None:
            if self._server is None:
                raise ValueError(
                    "VllmPolicy needs a ChatRenderer beside an address: the tokenizer is not asked from a server"
                )
            renderer = ChatRenderer(load_tokenizer(self._server.model))
        self.renderer = renderer
        self.model = model
        self.max_model_len = max_model_len
        self.stop_ids = tuple(dict.fromkeys([*renderer.stop_ids, *stop_ids]))
        address = server if isinstance(server, str) else server.url
        url = address.removesuffix("/").removesuffix("/v1")
        self._http = JsonClient(
            url,
            headers={"Authorization": f"Bearer {api_key}"} if api_key else {},
            timeout_seconds=timeout_seconds,
            max_retries=max_retries,
            give_up=self._server.why_dead if self._server else lambda: None,
        )

    @property
    def name(self) -> str:
        return f"vllm:{self.model or self._http.base_url}"

    async def act(self, messages: Sequence[Message | Mapping[str, Any]], sampling: Sampling) -> Action:
        """One completion. `max_tokens` is cut to the room that the prompt leaves.

        Raises `PromptTooLong` when there is none, `PolicyError` when the server fails after all retries.
        """
        return await self.sample(self.renderer.prompt_ids(messages), sampling)

    async def sample(self, prompt_ids: Sequence[int], sampling: Sampling) -> Action:
        """As `act`, for a prompt that is token ids already."""
        await self._ask_server()
        assert self.max_model_len is not None
        room = self.max_model_len - len(prompt_ids)
        if room < 1:
            raise PromptTooLong(
                f"the prompt has {len(prompt_ids)} tokens, the model's context {self.max_model_len}: no room for a completion"
            )
        body = {
            "model": self.model,
            "prompt": list(prompt_ids),
            "max_tokens": min(sampling.max_tokens, room),
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": 0,
            "min_p": 0.0,
            "repetition_penalty": 1.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "stop_token_ids": list(self.stop_ids),
            "logprobs": 0,
            "return_token_ids": True,
            "return_tokens_as_token_ids": True,
            "skip_special_tokens": False,
            "seed": sampling.seed,
        }
        start = time.monotonic()
        async with self._version() as version:
            try:
                ids, logprobs, reason = await self._post("v1/completions", body, _read_completion, version)
            except HttpError as error:
                if error.status == 400 and any(sign in error.body for sign in _TOO_LONG):
                    raise PromptTooLong(str(error)) from error
                raise
        seconds = time.monotonic() - start
        ended = bool(ids) and ids[-1] in self.stop_ids
        return Action(
            text=self.renderer.decode(ids[:-1] if ended else ids),
            prompt_ids=tuple(prompt_ids),
            completion_ids=ids,
            logprobs=logprobs,
            finish_reason="length" if reason == "length" else "stop",
            weights_version=version,
            prompt_tokens=len(prompt_ids),
            completion_tokens=len(ids),
            seconds=seconds,
        )

    async def _post(self, path: str, body: Mapping[str, Any], read: Callable[[Any], T], version: int) -> T:
        if self._fleet is not None:
            return await self._fleet.post(path, body, read, version=version)
        return await self._http.post(path, body, read)

    @contextlib.asynccontextmanager
    async def _version(self) -> AsyncIterator[int]:
        if self._server is None:
            yield 0
            return
        async with self._server.generating() as version:
            yield version

    async def _ask_server(self) -> None:
        """Fill in the model's name and context length, once."""
        if self.model is not None and self.max_model_len is not None:
            return
        if self._server is not None:
            self.model = self.model or self._server.served_name
            self.max_model_len = self.max_model_len or self._server.max_model_len
            return
        models = await self._http.get("v1/models", read_models)
        if self.model is None:
            self.model = next(iter(models))
        if self.model not in models:
            raise PolicyError(f"{self._http.base_url} serves {sorted(models)}, not {self.model!r}; name one of these")
        if self.max_model_len is None:
            self.max_model_len = models[self.model]

    async def aclose(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def read_models(reply: Any) -> dict[str, int]:
    """Name and context length of each served model, from a reply of /v1/models."""
    try:
        models = {row["id"]: int(row["max_model_len"]) for row in reply["data"]}
    except (KeyError, TypeError, ValueError) as error:
        raise MalformedReply(f"/v1/models tells no context length ({error!r}); is this a vLLM server?") from error
    if not models:
        raise MalformedReply("/v1/models lists no model")
    return models


def _read_completion(reply: Any) -> tuple[tuple[int, ...], tuple[float, ...], str]:
    """Sampled ids, their logprobs and the finish reason; the reply must say them of the same tokens."""
    try:
        choice = reply["choices"][0]
        ids = tuple(int(i) for i in choice["token_ids"])
        names, values = choice["logprobs"]["tokens"], choice["logprobs"]["token_logprobs"]
        logprobs = tuple(float(x) for x in values)
        reason = str(choice["finish_reason"])
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise MalformedReply(
            f"a completion without token ids or logprobs ({error!r}); is this a vLLM server?"
        ) from error
    if list(names) != [f"token_id:{i}" for i in ids] or len(logprobs) != len(ids):
        raise MalformedReply(f"{len(logprobs)} logprobs for {len(ids)} tokens, or of other tokens")
    if not all(math.isfinite(x) for x in logprobs):
        raise MalformedReply("logprobs that are not finite")
    if reason not in ("stop", "length"):
        raise MalformedReply(f"finish reason {reason!r}")
    return ids, logprobs, reason
