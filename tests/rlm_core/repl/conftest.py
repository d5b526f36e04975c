"""Real sessions in one line."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rlm_core.repl import ExecutionResult, Repl, ReplLimits

Run = Callable[..., Awaitable[list[ExecutionResult]]]
RunOne = Callable[..., Awaitable[ExecutionResult]]


@pytest.fixture
def run() -> Run:
    """`await run(*blocks, context=, limits=, subcalls=)`: the blocks in one session, one result each."""

    async def run_blocks(
        *blocks: str, context: Any = "text", limits: ReplLimits | None = None, subcalls: Any = None
    ) -> list[ExecutionResult]:
        async with Repl.open(context, limits or ReplLimits(wall_seconds=30), subcalls) as repl:
            return [await repl.execute(block) for block in blocks]

    return run_blocks


@pytest.fixture
def run_one(run: Run) -> RunOne:
    """As `run`; the last block's result."""

    async def run_last(*blocks: str, **options: Any) -> ExecutionResult:
        return (await run(*blocks, **options))[-1]

    return run_last
