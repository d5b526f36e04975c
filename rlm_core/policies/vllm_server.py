"""A vLLM server as a child process: started, watched, given new weights, and gone when its owner is gone.

The server loads from a folder of its own under `.cache/serve/`, where weights are hard links or copies: giving it new
weights never touches what a stage wrote, and a stage that replaces its files never changes what is served.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp

from rlm_core.params import ServeParams
from rlm_core.policies import weights
from rlm_core.policies.base import PolicyError
from rlm_core.policies.http import JsonClient
from rlm_core.policies.models import Dtype
from rlm_core.policies.served_model import ServedModel, VllmServerError
from rlm_core.policies.server_process import ServerProcess, free_port, port_fault
from rlm_core.policies.vllm_command import VllmCommand

if TYPE_CHECKING:
    from rlm_core.policies.vllm_fleet import VllmFleet

log = logging.getLogger("rlm.serve")

_ATTEMPTS_AT_A_FREE_PORT = 3
_PORT_TAKEN = ("address already in use", "Errno 98")


class VllmServer(ServedModel):
    """An async context manager around one vLLM server, started here or already running.

    >>> async with VllmServer(model_folder, max_model_len=2048) as server:
    ...     policy = VllmPolicy(server, ChatRenderer(load_tokenizer(model_folder)))
    ...     await policy.act(messages, Sampling())
    ...     await server.reload(trained_model.state_dict())     # server.version is 1 from here on

    `port` 0 takes a free one. `url` uses a running server instead of starting one: it must share the file system with
    this process, because it is given `model`'s weights first, whatever it served before; it must run with
    VLLM_SERVER_DEV_MODE=1 and `--logprobs-mode processed_logprobs`, and on a CPU with `--no-enable-chunked-prefill`.
    `eager` skips compilation: starts sooner, runs slower. `extra_args` go to vLLM as they are.

    Start it from a thread that lives on: the kernel kills the server when the thread that started it ends.
    Entering raises `VllmServerError` when the port is taken, the process dies or the time runs out.
    """

    def __init__(
        self,
        model: Path | str,
        *,
        url: str | None = None,
        port: int = 0,
        max_model_len: int = 2048,
        max_num_seqs: int = 64,
        kv_cache_gib: float = 1.0,
        dtype: Dtype = "bfloat16",
        start_timeout_seconds: float = 300.0,
        eager: bool = False,
        folder: Path | str = Path(".cache/serve"),
        extra_args: Sequence[str] = (),
    ) -> None:
        super().__init__(model, max_model_len=max_model_len, dtype=dtype, folder=folder)
        self.log_path: Path | None = None
        self.start_seconds = 0.0
        self._reused = url is not None
        self._url = url.removesuffix("/").removesuffix("/v1") if url else None
        self._port = port
        self._max_num_seqs = max_num_seqs
        self._kv_cache_gib = kv_cache_gib
        self._start_timeout = start_timeout_seconds
        self._eager = eager
        self._extra_args = list(extra_args)
        self._process: ServerProcess | None = None
        self._http: JsonClient | None = None
        self._stopped = False

    @classmethod
    def from_params(
        cls, serve: ServeParams, model: Path | str, *, dtype: Dtype = "bfloat16", **options: Any
    ) -> VllmServer | VllmFleet:
        """From the section `serve` of params.yaml; `dtype` is `model.dtype` there. A list of addresses gives a fleet."""
        if isinstance(serve.url, tuple):
            from rlm_core.policies.vllm_fleet import VllmFleet

            return VllmFleet(
                model,
                urls=serve.url,
                max_model_len=serve.max_model_len,
                dtype=dtype,
                patience_seconds=serve.start_timeout_seconds,
            )
        return cls(
            model,
            url=serve.url,
            port=serve.port,
            max_model_len=serve.max_model_len,
            max_num_seqs=serve.max_num_seqs,
            kv_cache_gib=serve.kv_cache_gib,
            start_timeout_seconds=serve.start_timeout_seconds,
            dtype=dtype,
            **{"eager": not serve.compile, **options},
        )

    @property
    def url(self) -> str:
        """Address without /v1. Known once entered."""
        if self._url is None:
            raise VllmServerError("the server is not started; use it inside `async with VllmServer(...)`")
        return self._url

    @property
    def pid(self) -> int | None:
        """Process id of the server started here, which is also its process group; None for a reused one."""
        return self._process.pid if self._process else None

    def why_dead(self) -> str | None:
        """What to tell a person when the process started here has ended; None while it runs."""
        if self._stopped:
            return "the vLLM server was stopped; keep its `async with` open while policies use it"
        return self._process.why_dead() if self._process else None

    async def _open(self) -> None:
        assert self._folder is not None
        self._stopped = False
        if self._reused:
            await self._join()
        else:
            weights.link_model(self.model, self._folder / "model")
            await self._start()

    async def _publish(self, target: Path) -> None:
        await self._swap(target)
        self.version += 1

    async def _swap(self, target: Path) -> None:
        """Have the server read `target`; other clients' requests are drained first and wait meanwhile."""
        assert self._http is not None
        try:
            await self._http.post("pause?mode=wait", {}, _anything)
            try:
                body = {"method": "reload_weights", "kwargs": {"weights_path": str(target)}}
                await self._http.post("collective_rpc", body, _anything)
                emptied = await self._http.post("reset_prefix_cache", {}, lambda reply: bool(reply.get("success")))
            finally:
                await self._http.post("resume", {}, _anything)
        except PolicyError as error:
            raise VllmServerError(
                f"{self.url} did not take the weights of {target}: {error}. A server started elsewhere needs "
                f"VLLM_SERVER_DEV_MODE=1 and this machine's file system"
                + (f"; {self._process.log_tail()}" if self._process else "")
            ) from error
        if not emptied:
            raise VllmServerError(
                f"{self.url}: the prefix cache of the old weights could not be emptied; restart the server"
            )

    async def _join(self) -> None:
        """Use the server at `url`, with this model's weights."""
        from rlm_core.policies.vllm import read_models

        self._open_client(max_retries=2)
        assert self._http is not None
        try:
            models = await self._http.get("v1/models", read_models)
        except PolicyError as error:
            raise VllmServerError(
                f"serve.url {self.url}: no vLLM server answers there ({error}); start it or unset serve.url"
            ) from error
        self.served_name = next(iter(models))
        if models[self.served_name] < self.max_model_len:
            raise VllmServerError(
                f"serve.url {self.url} serves a context of {models[self.served_name]} tokens, serve.max_model_len asks for "
                f"{self.max_model_len}; lower it, or start the server with --max-model-len {self.max_model_len}"
            )
        self.max_model_len = models[self.served_name]
        await self.reload(self.model)
        self.version = 0

    async def _start(self) -> None:
        for attempt in range(_ATTEMPTS_AT_A_FREE_PORT):
            fault = port_fault(self._port) if self._port else None
            if fault:
                raise VllmServerError(
                    f"serve.port {self._port} cannot be used ({fault}): another program listens there; use another port, or "
                    f"0 for a free one, or serve.url if a vLLM server is meant (`ss -ltnp` names the program)"
                )
            port = self._port or free_port()
            self._spawn(port)
            try:
                await self._wait_until_healthy()
            except VllmServerError as error:
                taken = any(sign in str(error) for sign in _PORT_TAKEN)
                if self._port or not taken or attempt == _ATTEMPTS_AT_A_FREE_PORT - 1:
                    raise
                log.warning("port %d was taken meanwhile; trying another", port)
                await self._end_process()
            else:
                return

    def _spawn(self, port: int) -> None:
        assert self._folder is not None
        self._url = f"http://127.0.0.1:{port}"
        self.log_path = self._folder / "server.log"
        served = VllmCommand(
            model=self._folder / "model",
            served_name=self.served_name,
            max_model_len=self.max_model_len,
            max_num_seqs=self._max_num_seqs,
            kv_cache_gib=self._kv_cache_gib,
            dtype=self.dtype,
            eager=self._eager,
            extra_args=self._extra_args,
        )
        command, environment = served.on_port(port)
        log.info("starting vLLM with %s on %s; log in %s", self.model, self._url, self.log_path)
        self._process = ServerProcess(command, environment=environment, log_path=self.log_path)
        self._open_client(max_retries=4)

    def _open_client(self, *, max_retries: int) -> None:
        self._http = JsonClient(
            self.url, timeout_seconds=self._start_timeout, max_retries=max_retries, give_up=self.why_dead
        )

    async def _wait_until_healthy(self) -> None:
        assert self._process is not None and self._folder is not None
        start = last_line = time.monotonic()
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as session:
            while (served := await _served_folder(session, self.url)) is None:
                dead = self.why_dead()
                if dead:
                    raise VllmServerError(f"{self.model}: {dead}")
                now = time.monotonic()
                if now - start > self._start_timeout:
                    raise VllmServerError(
                        f"{self.model}: the vLLM server was not ready after {self._start_timeout:g} s; raise "
                        f"serve.start_timeout_seconds; {self._process.log_tail()}"
                    )
                if now - last_line >= 10:
                    last_line = now
                    log.info("vLLM is starting: %.0f s; %s", now - start, self._process.last_line())
                await asyncio.sleep(0.25)
        if served != str(self._folder / "model"):
            raise VllmServerError(f"{self.url}: address already in use by a server of {served}")
        self.start_seconds = time.monotonic() - start
        log.info("vLLM answers on %s after %.1f s", self.url, self.start_seconds)

    async def _close(self) -> None:
        self._stopped = True
        if self._http is not None:
            await self._http.aclose()
        await self._end_process()
        if self._folder is not None:
            self._keep_log()
        await super()._close()

    async def _end_process(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            await process.stop()

    def _keep_log(self) -> None:
        """The last server's log stays beside the folders, for a look after a failure."""
        if self.log_path is not None and self.log_path.exists():
            kept = self._parent_folder / "last-server.log"
            with contextlib.suppress(OSError):
                self.log_path.replace(kept)
                self.log_path = kept


async def _served_folder(session: aiohttp.ClientSession, url: str) -> str | None:
    """The model folder of the server that answers at `url`; None while none does."""
    with contextlib.suppress(aiohttp.ClientError, TimeoutError, ValueError, LookupError, TypeError):
        async with session.get(f"{url}/v1/models") as reply:
            if reply.status == 200:
                return str((await reply.json())["data"][0]["root"])
    return None


def _anything(reply: Any) -> Any:
    return reply
