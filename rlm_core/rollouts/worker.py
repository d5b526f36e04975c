"""A node's REPL, opened while the model writes its first turn, so that its start costs no time."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from rlm_core.repl import ExecutionResult, Repl, ReplLimits, SandboxUnavailable, SubcallHandler
from rlm_core.rollouts.config import RolloutConfig


class WorkerFailure(RuntimeError):
    """The sandbox failed, not the model's code: the node has no result."""


class Worker:
    """`Repl.open` as a task; `execute` waits for it. Every `start` needs a `close`."""

    def __init__(self, task: asyncio.Task[Repl], stack: contextlib.AsyncExitStack) -> None:
        self._task, self._stack = task, stack

    @classmethod
    def start(cls, context: Any, config: RolloutConfig, subcalls: SubcallHandler) -> Worker:
        limits = ReplLimits(
            wall_seconds=config.block_seconds, memory_mb=config.memory_mb, output_chars=config.output_chars
        )
        stack = contextlib.AsyncExitStack()
        manager = Repl.open(context, limits=limits, subcalls=subcalls, sandbox=config.sandbox)
        return cls(asyncio.create_task(stack.enter_async_context(manager), name="open repl"), stack)

    async def execute(self, code: str) -> ExecutionResult:
        """Run one block. Raises `WorkerFailure`; what the code does wrong is in the result."""
        try:
            repl = await asyncio.shield(self._task)
        except ValueError as error:
            raise WorkerFailure(f"the context cannot be handed over: {error}") from error
        except (SandboxUnavailable, RuntimeError, OSError) as error:
            raise WorkerFailure(f"{type(error).__name__}: {error}") from error
        try:
            return await repl.execute(code)
        except (SandboxUnavailable, RuntimeError, OSError) as error:
            raise WorkerFailure(f"{type(error).__name__}: {error}") from error

    async def close(self) -> None:
        """Stop the worker process, also when the caller is cancelled meanwhile, however often.

        One that is still starting is let start first: quick, and nothing is left half made.
        """
        closing = asyncio.create_task(self._close(), name="close repl")
        cancelled: asyncio.CancelledError | None = None
        while not closing.done():
            try:
                await asyncio.shield(closing)
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled
        closing.result()

    async def _close(self) -> None:
        await asyncio.gather(self._task, return_exceptions=True)
        await self._stack.aclose()
