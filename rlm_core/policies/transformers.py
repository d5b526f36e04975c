"""The policy in this process: transformers' `generate`, with calls that wait at the same time batched together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from rlm_core.policies.base import Action, Message, PolicyError, PromptTooLong, Sampling
from rlm_core.policies.models import check_model_folder, load_tokenizer
from rlm_core.policies.models import stop_ids as stop_ids_of
from rlm_core.policies.rendering import ChatRenderer


@dataclass(slots=True)
class _Call:
    prompt_ids: tuple[int, ...]
    sampling: Sampling
    max_tokens: int
    done: asyncio.Future[tuple[tuple[int, ...], tuple[float, ...]]] = field(repr=False)


class TransformersPolicy:
    """Samples from a model in memory.

    `model` is a model folder or a loaded causal LM; with the latter a `tokenizer` is needed. `dtype` is that in which a
    folder is loaded. Calls that arrive while a batch runs form the next one, `max_batch_size` at most; each keeps its own
    temperature, top_p, seed and `max_tokens`. Logprobs are those of the distribution that was sampled (for temperature 0
    the model's own). Use `async with`, or `await aclose()`, to end the worker.

    Slower than a server by an order of magnitude: no continuous batching, no prefix cache.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        *,
        renderer: ChatRenderer | None = None,
        dtype: str = "float32",
        max_batch_size: int = 32,
        max_model_len: int | None = None,
        device: str | None = None,
        name: str | None = None,
    ) -> None:
        stops: tuple[int, ...] = ()
        if isinstance(model, str | Path):
            import torch
            from transformers import AutoModelForCausalLM

            folder = check_model_folder(model)
            tokenizer = tokenizer or load_tokenizer(folder)
            stops = stop_ids_of(folder)
            model = AutoModelForCausalLM.from_pretrained(str(folder), dtype=getattr(torch, dtype))
            model.to(device or ("cuda" if torch.cuda.is_available() else "cpu"))
            name = name or folder.name
        if tokenizer is None and renderer is None:
            raise ValueError("TransformersPolicy needs a tokenizer beside a loaded model")
        self.renderer = renderer or ChatRenderer(tokenizer)
        self.model = model
        self.name = f"transformers:{name or type(model).__name__}"
        self.weights_version = 0
        """Stamped on actions; raise it after changing the model's weights."""
        self.stop_ids = tuple(dict.fromkeys([*self.renderer.stop_ids, *stops]))
        self.max_model_len = max_model_len or int(model.config.get_text_config().max_position_embeddings)
        self.max_batch_size = max_batch_size
        self._waiting: list[_Call] = []
        self._arrived = asyncio.Event()
        self._worker: asyncio.Task[None] | None = None

    async def act(self, messages: Sequence[Message | Mapping[str, Any]], sampling: Sampling) -> Action:
        """One completion; raises `PromptTooLong`, or `PolicyError` when generation fails."""
        prompt_ids = self.renderer.prompt_ids(messages)
        room = self.max_model_len - len(prompt_ids)
        if room < 1:
            raise PromptTooLong(
                f"the prompt has {len(prompt_ids)} tokens, the model's context {self.max_model_len}: no room for a completion"
            )
        start = time.monotonic()
        loop = asyncio.get_running_loop()
        if self._worker is None or self._worker.done() or self._worker.get_loop() is not loop:
            self._arrived = asyncio.Event()
            self._worker = loop.create_task(self._work(), name="transformers-policy")
        call = _Call(prompt_ids, sampling, min(sampling.max_tokens, room), loop.create_future())
        self._waiting.append(call)
        self._arrived.set()
        version = self.weights_version
        ids, logprobs = await call.done
        ended = bool(ids) and ids[-1] in self.stop_ids
        return Action(
            text=self.renderer.decode(ids[:-1] if ended else ids),
            prompt_ids=prompt_ids,
            completion_ids=ids,
            logprobs=logprobs,
            finish_reason="stop" if ended else "length",
            weights_version=version,
            prompt_tokens=len(prompt_ids),
            completion_tokens=len(ids),
            seconds=time.monotonic() - start,
        )

    async def _work(self) -> None:
        while True:
            await self._arrived.wait()
            await asyncio.sleep(0)  # callers of the same moment join the batch
            self._waiting = [call for call in self._waiting if not call.done.done()]  # cancelled ones
            batch, self._waiting = self._waiting[: self.max_batch_size], self._waiting[self.max_batch_size :]
            if not self._waiting:
                self._arrived.clear()
            if not batch:
                continue
            try:
                results = await asyncio.to_thread(self._generate, batch)
            except Exception as error:  # noqa: BLE001 - whatever went wrong goes to those who wait
                for call in batch:
                    if not call.done.done():
                        failure = PolicyError(f"{self.name}: generation failed: {type(error).__name__}: {error}")
                        failure.__cause__ = error
                        call.done.set_exception(failure)
                continue
            for call, result in zip(batch, results, strict=True):
                if not call.done.done():
                    call.done.set_result(result)

    def _generate(self, batch: Sequence[_Call]) -> list[tuple[tuple[int, ...], tuple[float, ...]]]:
        from rlm_core.policies.sampling import generate_batch

        return generate_batch(
            self.model,
            [call.prompt_ids for call in batch],
            [call.sampling for call in batch],
            [call.max_tokens for call in batch],
            stop_ids=self.stop_ids,
        )

    async def aclose(self) -> None:
        """End the worker; calls that still wait fail."""
        worker, self._worker = self._worker, None
        if worker is not None and not worker.done() and worker.get_loop() is asyncio.get_running_loop():
            worker.cancel()
            await asyncio.gather(worker, return_exceptions=True)
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            if not call.done.done():
                call.done.set_exception(PolicyError(f"{self.name}: closed"))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
