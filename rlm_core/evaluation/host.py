"""One vLLM server for all arms that need a model of this project."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rlm_core.params import Params
from rlm_core.policies import ChatRenderer, Policy


class VllmHost:
    """Started with the first model, given the weights of the others in place; an evaluation that is all in the cache
    starts no server."""

    def __init__(self, params: Params, renderer: ChatRenderer | None) -> None:
        self._params, self._renderer = params, renderer
        self._server: Any = None
        self._policy: Any = None
        self.max_model_len = params.serve.max_model_len

    async def load(self, folder: Path) -> Policy:
        """Serve the model of `folder` from now on and return its policy."""
        from rlm_core.policies import VllmPolicy, VllmServer

        assert self._renderer is not None, "a host without models cannot load one"
        if self._server is None:
            server = VllmServer.from_params(self._params.serve, folder, dtype=self._params.model.dtype)
            self._server = await server.__aenter__()
            self._policy = VllmPolicy(server, self._renderer, max_model_len=self.max_model_len)
        else:
            await self._server.reload(folder)
        policy: Policy = self._policy
        return policy

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._policy is not None:
            await self._policy.aclose()
        if self._server is not None:
            await self._server.__aexit__(kind, value, trace)
