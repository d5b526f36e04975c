"""Time, memory, sizes: what is past a limit is stopped or refused, and says so."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rlm_core.records import ErrorClass
from rlm_core.repl import ExecutionResult, Repl, ReplLimits, worker_handle

Run = Callable[..., Awaitable[list[ExecutionResult]]]
RunOne = Callable[..., Awaitable[ExecutionResult]]


async def test_a_block_past_its_time_is_killed_and_the_next_starts_afresh(run: Run) -> None:
    limits = ReplLimits(wall_seconds=0.3)
    kept, killed, after, later = await run("x = 1", "while True: pass", "'x' in globals(), context", "1", limits=limits)
    assert kept.error is None
    assert killed.killed
    assert killed.error == (
        "the block ran longer than 0.3 s and was stopped. All variables are lost; the next block starts a fresh REPL."
    )
    assert killed.error_class is ErrorClass.LIMIT
    assert 0.3 <= killed.seconds < 2
    assert after.stdout.endswith("(False, 'text')\n")
    assert after.stdout.startswith("[the REPL was restarted: variables of earlier blocks are gone")
    assert later.stdout == "1\n"


async def test_out_of_memory_is_an_exception_and_variables_stay(run: Run) -> None:
    result, after = await run("x = 1\ny = bytearray(10**9)", "x")
    assert (result.error_class, result.killed, after.stdout) == (ErrorClass.LIMIT, False, "1\n")


async def test_a_context_that_does_not_fit_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="memory_mb=32"):
        async with Repl.open("x" * 40_000_000, limits=ReplLimits(memory_mb=32)):
            pass


@pytest.mark.parametrize(
    "options", [{"wall_seconds": 0}, {"memory_mb": 1}, {"output_chars": -1}, {"files": 1.5}, {"threads": True}]
)
def test_limits_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        ReplLimits(**options)


async def test_a_block_too_large_to_hand_over_is_refused_and_the_session_goes_on(run: Run) -> None:
    result, after = await run("x = '" + "y" * 8_000_000 + "'", "1", limits=ReplLimits(message_mb=1))
    assert result.error is not None
    assert "the block was not run" in result.error
    assert after.stdout == "1\n"


async def test_a_frame_in_tiny_pieces_does_not_keep_the_host_busy(
    run_one: RunOne, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings = 0
    receive = worker_handle.WorkerHandle._receive

    def count(self: worker_handle.WorkerHandle) -> bytes:
        nonlocal readings
        readings += 1
        return receive(self)

    monkeypatch.setattr(worker_handle.WorkerHandle, "_receive", count)
    code = (
        "import os, stat, time\nchannel = next(n for n in range(3, 60) if stat.S_ISSOCK(os.fstat(n).st_mode))\n"
        "os.write(channel, (1 << 20).to_bytes(4, 'little'))\n"
        "while True:\n    os.write(channel, b' ')\n    time.sleep(0.0001)"
    )
    result = await run_one(code, limits=ReplLimits(wall_seconds=1))
    assert result.killed
    assert 20 < readings < 300  # one each 5 ms; without a rest some 5,000
