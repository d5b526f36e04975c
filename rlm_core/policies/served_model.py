"""A model that is served and whose weights change: what one vLLM server and a fleet of several have in common."""

from __future__ import annotations

import abc
import asyncio
import contextlib
import logging
import shutil
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Self

from rlm_core.policies import weights
from rlm_core.policies.base import PolicyError
from rlm_core.policies.models import Dtype, check_model_folder
from rlm_core.policies.reload_gate import ReloadGate

if TYPE_CHECKING:
    import torch

log = logging.getLogger("rlm.serve")


class VllmServerError(PolicyError):
    """A server did not start, died, or refused new weights; the message holds the end of its log where there is one."""


class ServedModel(abc.ABC):
    """An async context manager: served inside the block. `folder` holds what the server reads, in a slot of its own."""

    def __init__(self, model: Path | str, *, max_model_len: int, dtype: Dtype, folder: Path | str) -> None:
        self.model = Path(model)
        self.max_model_len = max_model_len
        self.served_name = "policy"
        self.version = 0
        """Counts the weights: 0 as started, one more with each reload."""
        self.dtype: Dtype = dtype
        self._parent_folder = Path(folder)
        self._slot = contextlib.ExitStack()
        self._folder: Path | None = None
        self._gate = ReloadGate()

    async def __aenter__(self) -> Self:
        check_model_folder(self.model)
        self._folder = self._slot.enter_context(weights.own_slot(self._parent_folder))
        try:
            await self._open()
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    @property
    @abc.abstractmethod
    def url(self) -> str:
        """Where it is served."""

    @abc.abstractmethod
    def why_dead(self) -> str | None:
        """Why no answer will come any more, for a person; None while one may."""

    @abc.abstractmethod
    async def _open(self) -> None:
        """Serve `model`, as version 0."""

    @abc.abstractmethod
    async def _publish(self, target: Path) -> None:
        """Have the weights of the folder `target` served, and count `version` up. No request is under way meanwhile."""

    async def _close(self) -> None:
        """Let go of everything; called once for each `_open`, also for one that failed."""
        self._folder = None
        self._slot.close()

    @contextlib.asynccontextmanager
    async def generating(self) -> AsyncIterator[int]:
        """Held around a request: yields the version of the weights that will answer it; waits out a reload."""
        async with self._gate.request():
            yield self.version

    async def reload(self, source: Path | str | Mapping[str, torch.Tensor]) -> int:
        """Serve other weights of the same architecture, from a model folder or a state dict; returns their version.

        Requests through `generating` (a `VllmPolicy` makes them so) that are under way are waited for, later ones wait.
        The names and shapes are compared with the served model's first. Raises `VllmServerError` when they differ or
        no server takes them; what a server serves then is unknown after its refusal, and unchanged otherwise.
        """
        assert self._folder is not None, "reload() outside `async with`"
        target = self._folder / f"weights-{self.version + 1}-{time.monotonic_ns()}"
        async with self._gate.reload():
            start = time.monotonic()
            try:
                await asyncio.to_thread(weights.write_weights, source, target, like=self.model, dtype=self.dtype)
                await self._publish(target)
            except BaseException:
                shutil.rmtree(target, ignore_errors=True)
                raise
            log.info("weights version %d are served after %.2f s", self.version, time.monotonic() - start)
            for old in self._folder.glob("weights-*"):
                if old != target:
                    shutil.rmtree(old, ignore_errors=True)
            return self.version
