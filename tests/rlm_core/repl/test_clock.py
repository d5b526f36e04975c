"""A block's clock: it stands still while sub-calls are awaited, and rings for its own block only."""

from __future__ import annotations

import asyncio

from rlm_core.repl.clock import Clock


async def test_it_rings_once_when_the_time_is_used_up_waits_not_counted() -> None:
    rung: list[float] = []
    clock = Clock()
    clock.start(0.05, lambda: rung.append(clock.seconds))
    clock.pause()
    clock.pause()
    await asyncio.sleep(0.1)
    clock.resume()
    assert rung == []  # one of two waits goes on
    clock.resume()
    await asyncio.sleep(0.1)
    clock.stop()
    assert len(rung) == 1
    assert rung[0] >= 0.05


async def test_a_wait_that_ends_after_its_block_starts_nothing() -> None:
    rung: list[str] = []
    clock = Clock()
    clock.start(60, lambda: rung.append("first"))
    clock.pause()
    clock.stop()
    clock.start(0.02, lambda: rung.append("second"))
    clock.resume()  # of the first block's wait
    clock.stop()
    await asyncio.sleep(0.06)
    assert rung == []
    assert clock.seconds < 0.02
