"""One worker as the host sees it: starts that are bounded, frames that go out whole."""

from __future__ import annotations

import asyncio
import resource
import socket
from pathlib import Path
from typing import Any

import pytest

from rlm_core.repl import Repl, ReplLimits, forkserver, wire
from rlm_core.repl.worker_handle import WorkerGone, WorkerHandle


def ignore(_: Any) -> None:
    pass


def handle_and_peer() -> tuple[WorkerHandle, socket.socket]:
    """A handle of a worker that serves, and the socket that is the worker's end."""
    mine, theirs = socket.socketpair()
    mine.setblocking(False)
    handle = WorkerHandle(mine, ReplLimits(), ignore, ignore)
    handle.ready.set_result(None)
    return handle, theirs


async def test_the_time_to_start_counts_the_queue_before_the_fork() -> None:
    class Busy:
        async def fork(self, limits: dict[str, float], channel: int, context: int) -> None:
            await asyncio.sleep(60)

    opening = WorkerHandle.spawn(Busy(), 0, ReplLimits(open_seconds=0.05), ignore, ignore)  # type: ignore[arg-type]
    with pytest.raises(WorkerGone, match=r"open_seconds=0\.05"):
        await asyncio.wait_for(opening, 5)


async def test_a_frame_whose_sender_is_cancelled_goes_out_whole_and_before_the_next() -> None:
    handle, theirs = handle_and_peer()
    large, small = {"text": "x" * 2_000_000}, {"n": 1}
    senders = [asyncio.create_task(handle.send(message)) for message in (large, small)]
    await asyncio.sleep(0.01)
    assert not any(sender.done() for sender in senders)  # nobody reads yet
    senders[0].cancel()
    arrived = b""
    whole = wire.encode(large) + wire.encode(small)
    theirs.settimeout(5)
    while len(arrived) < len(whole):
        arrived += await asyncio.to_thread(theirs.recv, 1 << 20)
    assert arrived == whole
    await senders[1]
    with pytest.raises(asyncio.CancelledError):
        await senders[0]
    theirs.close()
    await handle.close()
    with pytest.raises(WorkerGone):
        await handle.send(small)


async def test_a_sender_that_waits_learns_of_the_end() -> None:
    handle, theirs = handle_and_peer()
    sender = asyncio.create_task(handle.send({"text": "x" * 2_000_000}))
    await asyncio.sleep(0.01)
    theirs.close()
    with pytest.raises(WorkerGone):
        await asyncio.gather(sender, handle.close())


async def test_a_fork_server_without_free_descriptors_refuses_and_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    server = await asyncio.to_thread(forkserver.ForkServer.start, sandbox=False)
    monkeypatch.setitem(forkserver._servers, False, server)
    try:
        async with Repl.open("text", sandbox="none") as repl:
            used = len(list(Path(f"/proc/{server.pid}/fd").iterdir()))
            resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (used, used))
            with pytest.raises(RuntimeError, match="no REPL worker could be started"):
                async with Repl.open("text", sandbox="none"):
                    pass
            assert (await repl.execute("40 + 2")).stdout == "42\n"
    finally:
        server.stop()
