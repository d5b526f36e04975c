"""`Repl`: a Python session for model-written code, in a confined process of its own."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from types import TracebackType
from typing import Any, Literal, Self

from rlm_core.records import Context, ErrorClass
from rlm_core.repl import forkserver, wire
from rlm_core.repl.clock import Clock
from rlm_core.repl.handover import memory_file
from rlm_core.repl.limits import ReplLimits
from rlm_core.repl.requests import RequestError, check_request
from rlm_core.repl.result import ExecutionResult, result_of
from rlm_core.repl.sandbox.report import SandboxUnavailable
from rlm_core.repl.worker_handle import WorkerGone, WorkerHandle

log = logging.getLogger("rlm.repl")

SubcallHandler = Callable[[str, dict[str, Any]], Awaitable[Any]]
"""Gets a name (llm_query, llm_query_batched, rlm_query, rlm_query_batched) and its checked arguments; returns JSON data."""

RESTARTED = "[the REPL was restarted: variables of earlier blocks are gone; context and the tools are as at the start]"
_MAX_CALLS = 64
_MAX_REFUSED = 1000
"""Refused sub-calls between one block's start and the next's: a loop that asks on and on would keep the host busy."""


class SubcallError(Exception):
    """Raised by a sub-call handler to refuse; the code sees an exception with this message."""


class Repl:
    """A session: variables stay from block to block. Open it with `Repl.open` as an async context manager.

    >>> async with Repl.open("some text", limits=ReplLimits(wall_seconds=5)) as repl:
    ...     result = await repl.execute("len(context)")
    >>> result.stdout
    '9\\n'
    """

    def __init__(
        self, context: Context, limits: ReplLimits, subcalls: SubcallHandler | None, sandbox: Literal["auto", "none"]
    ) -> None:
        if sandbox not in ("auto", "none"):
            raise ValueError(f"sandbox must be 'auto' or 'none', got {sandbox!r}")
        self._context, self._limits, self._subcalls = context, limits, subcalls
        self._sandboxed = sandbox == "auto"
        self._worker: WorkerHandle | None = None
        self._open = False
        self._restarted = False
        self._sequence = 0
        self._result: asyncio.Future[dict[str, Any]] | None = None
        self._calls: dict[int, asyncio.Task[None]] = {}
        self._refused = 0
        self._clock = Clock()

    @classmethod
    def open(
        cls,
        context: Context,
        limits: ReplLimits | None = None,
        subcalls: SubcallHandler | None = None,
        sandbox: Literal["auto", "none"] = "auto",
    ) -> Self:
        """A session on `context` (a text, or a dict of plain data).

        Entering raises `SandboxUnavailable` when the machine cannot confine code, `ValueError` when the context is no
        plain data or does not fit into the worker's memory. `sandbox="none"` runs code unprotected and logs a warning.
        """
        return cls(context, limits or ReplLimits(), subcalls, sandbox)

    async def __aenter__(self) -> Self:
        if not self._sandboxed:
            log.warning("sandbox 'none': model-written code runs unprotected, with all that this user may do")
        await self._start_worker()
        self._open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open = False
        await self._drop_worker()

    @property
    def pid(self) -> int | None:
        """Process number of the worker, None while there is none."""
        return self._worker.pid if self._worker else None

    async def execute(self, code: str) -> ExecutionResult:
        """Run one block and wait for it.

        Whatever the code does ends up in the result. Raises what the sub-call handler raised, `SubcallError` apart, and
        `RuntimeError` when the session is not open, runs another block, or no worker can be started; cancelling kills.
        """
        if not self._open:
            raise RuntimeError("the REPL is not open: use `async with Repl.open(...)`")
        if self._result is not None:
            raise RuntimeError("the REPL runs a block already; wait for it")
        if not isinstance(code, str):
            raise TypeError(f"code must be a str, got {type(code).__name__}")
        self._result = asyncio.get_running_loop().create_future()
        try:
            result = await self._run(code)
        except BaseException:
            self._restarted = True
            self._result.cancel()
            await self._drop_worker()
            raise
        finally:
            self._result = None
        if result.killed:
            self._restarted = True
            await self._drop_worker()
        return result

    async def _run(self, code: str) -> ExecutionResult:
        assert self._result is not None
        limits = self._limits
        fresh = self._worker is None
        if fresh:
            await self._start_worker()
        worker = self._worker
        assert worker is not None
        self._sequence += 1
        self._refused = 0
        self._clock.start(limits.wall_seconds, self._out_of_time)
        try:
            await worker.send({"op": "exec", "seq": self._sequence, "code": code})
            row = await self._result
        except WorkerGone as gone:
            return self._stopped(str(gone))
        except ValueError as error:
            if self._result.done():
                raise
            return ExecutionResult(error=f"the block was not run: {error}", error_class=ErrorClass.LIMIT)
        finally:
            self._clock.stop()
            await self._cancel_calls()
        result = result_of(row, limits, self._clock.seconds)
        if fresh and self._restarted:
            self._restarted = False
            result = replace(result, stdout=f"{RESTARTED}\n{result.stdout}")
        return result

    def _stopped(self, reason: str) -> ExecutionResult:
        error = f"{reason}. All variables are lost; the next block starts a fresh REPL."
        return ExecutionResult(error=error, killed=True, seconds=self._clock.seconds, error_class=ErrorClass.LIMIT)

    def _out_of_time(self) -> None:
        self._fail_block(WorkerGone(f"the block ran longer than {self._limits.wall_seconds:g} s and was stopped"))

    def _fail_block(self, error: Exception) -> None:
        if self._worker is not None:
            self._worker.kill()
        if self._result is not None and not self._result.done():
            self._result.set_exception(error)

    async def _start_worker(self) -> None:
        for attempt in (1, 2):
            server = await forkserver.get_async(sandbox=self._sandboxed)
            if self._sandboxed and not server.report.full:
                raise SandboxUnavailable(server.report.explain())
            context = await memory_file(self._context)
            try:
                self._worker = await WorkerHandle.spawn(
                    server, context, self._limits, self._on_message, self._on_worker_end
                )
                return
            except (OSError, WorkerGone) as error:
                if isinstance(error, WorkerGone) and "memory_mb" in str(error):
                    raise ValueError(str(error)) from None
                if isinstance(error, OSError):
                    await asyncio.to_thread(forkserver.retire, server)
                if attempt == 2:
                    raise RuntimeError(f"no REPL worker could be started: {error}") from error
            finally:
                os.close(context)

    async def _drop_worker(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.kill()
        try:
            await self._cancel_calls()
        finally:
            if worker is not None:
                await asyncio.shield(worker.close())

    def _on_worker_end(self, reason: str) -> None:
        self._fail_block(WorkerGone(reason))

    def _on_message(self, message: dict[str, Any]) -> None:
        """One frame of the worker. Raises `WireError` for what no honest worker sends."""
        kind = message.get("op")
        if kind == "result":
            if self._result is None or message.get("seq") != self._sequence:
                raise wire.WireError("a result that nobody asked for")
            if not self._result.done():
                self._result.set_result(message)
        elif kind == "call":
            self._on_call(message)
        else:
            raise wire.WireError("an unknown message")

    def _on_call(self, message: dict[str, Any]) -> None:
        call = message.get("id")
        if not isinstance(call, int) or isinstance(call, bool) or call in self._calls:
            raise wire.WireError("a sub-call without a number of its own")
        if len(self._calls) >= _MAX_CALLS:
            raise wire.WireError(f"more than {_MAX_CALLS} sub-calls at once")
        try:
            request = check_request(message)
            if self._result is None or self._result.done():
                raise RequestError("sub-calls are possible only while a block runs; wait for your threads inside it")
            if self._subcalls is None:
                raise RequestError(f"{request[0]} is not available in this REPL")
        except RequestError as error:
            self._count_refusal()
            # the clock goes on: nonsense must not buy time
            self._calls[call] = task = asyncio.create_task(
                self._reply({"op": "reply", "id": call, "error": str(error)})
            )
            task.add_done_callback(lambda _: self._calls.pop(call, None))
            return
        self._clock.pause()
        task = asyncio.create_task(self._answer(call, *request))
        self._calls[call] = task
        task.add_done_callback(lambda _: self._call_done(call))

    def _count_refusal(self) -> None:
        self._refused += 1
        if self._refused > _MAX_REFUSED:
            raise wire.WireError(f"it went on after {_MAX_REFUSED} refused sub-calls")

    def _call_done(self, call: int) -> None:
        self._calls.pop(call, None)
        self._clock.resume()

    async def _answer(self, call: int, name: str, arguments: dict[str, Any]) -> None:
        assert self._subcalls is not None
        reply: dict[str, Any] = {"op": "reply", "id": call}
        try:
            reply["value"] = await self._subcalls(name, arguments)
        except SubcallError as refusal:
            try:
                self._count_refusal()
            except wire.WireError as flood:
                self._fail_block(WorkerGone(f"the code was stopped: {flood}"))
                return
            reply["error"] = str(refusal) or "the sub-call was refused"
        except Exception as error:  # noqa: BLE001 - the harness failed: it is the caller's, not the code's
            self._fail_block(error)
            return
        await self._reply(reply)

    async def _reply(self, reply: dict[str, Any]) -> None:
        worker = self._worker
        if worker is None:
            return
        try:
            try:
                await worker.send(reply)
            except (TypeError, ValueError) as error:
                message = f"the result cannot be handed over: {error}"
                await worker.send({"op": "reply", "id": reply["id"], "error": message})
        except WorkerGone as gone:
            self._fail_block(gone)

    async def _cancel_calls(self) -> None:
        tasks = [task for task in self._calls.values() if not task.done()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.gather(*tasks, return_exceptions=True)
