"""Nothing outlives its host: not at the end, not at kill -9, not in forked copies of the host."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rlm_core.repl import Repl, forkserver

HOST = """
import asyncio, sys, time
from rlm_core.repl import Repl, forkserver
async def main():
    async with Repl.open("text") as busy, Repl.open("text") as idle:
        task = asyncio.create_task(busy.execute("while True: pass"))
        await asyncio.sleep(0.2)
        print(busy.pid, idle.pid, forkserver.get(sandbox=True).pid, flush=True)
        {ending}
asyncio.run(main())
"""


def gone(pids: list[int], seconds: float = 5.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not any(alive(pid) for pid in pids):
            return True
        time.sleep(0.02)
    return False


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


@pytest.mark.parametrize("ending", ["await asyncio.sleep(60)", "import os; os._exit(0)", "raise SystemExit(3)"])
def test_workers_and_fork_server_die_with_the_host(ending: str) -> None:
    host = subprocess.Popen([sys.executable, "-c", HOST.format(ending=ending)], stdout=subprocess.PIPE, text=True)
    assert host.stdout is not None
    pids = [int(word) for word in host.stdout.readline().split()]
    assert len(pids) == 3
    if "sleep" in ending:
        assert all(alive(pid) for pid in pids)
        host.kill()
    host.wait()
    host.stdout.close()
    assert gone(pids), [pid for pid in pids if alive(pid)]


async def test_workers_die_with_a_killed_fork_server() -> None:
    server = await asyncio.to_thread(forkserver.ForkServer.start, sandbox=True)
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    os.kill(server.pid, signal.SIGKILL)
    assert gone([int(pid) for pid in children])
    server.stop()


def _open_in_a_copy(result: multiprocessing.Queue) -> None:  # type: ignore[type-arg]
    async def main() -> str:
        async with Repl.open("copy") as repl:
            return str((await repl.execute("FINAL(context)")).final)

    result.put(asyncio.run(main()))


def test_a_forked_copy_of_the_host_gets_a_fork_server_of_its_own() -> None:
    async def main() -> None:
        async with Repl.open("original") as repl:
            mine = forkserver.get(sandbox=True)
            context = multiprocessing.get_context("fork")
            queue: multiprocessing.Queue[str] = context.Queue()
            copy = context.Process(target=_open_in_a_copy_outside_the_loop, args=(queue,))
            copy.start()
            assert await asyncio.to_thread(queue.get, True, 20) == "copy"
            await asyncio.to_thread(copy.join)
            assert forkserver.get(sandbox=True) is mine
            assert (await repl.execute("FINAL(context)")).final == "original"

    asyncio.run(main())


def _open_in_a_copy_outside_the_loop(queue: multiprocessing.Queue) -> None:  # type: ignore[type-arg]
    asyncio._set_running_loop(None)  # the copy was made while the parent's loop ran
    _open_in_a_copy(queue)


def test_sessions_of_several_event_loops_share_one_fork_server() -> None:
    async def main() -> int:
        async with Repl.open("text") as repl:
            assert (await repl.execute("1")).stdout == "1\n"
        return (await forkserver.get_async(sandbox=True)).pid

    assert asyncio.run(main()) == asyncio.run(main())


async def test_the_kernel_sees_a_worker_without_any_power() -> None:
    """Read from outside, since nothing inside the worker can be believed."""
    async with Repl.open("text") as repl:
        assert (await repl.execute("1 + 1")).stdout == "2\n"
        rows = dict(line.split(":", 1) for line in Path(f"/proc/{repl.pid}/status").read_text().splitlines())
        names = {str(f.readlink()) for f in Path(f"/proc/{repl.pid}/fd").iterdir()}
    powers = {key: int(rows[key], 16) for key in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")}
    assert powers == dict.fromkeys(powers, 0)
    assert (int(rows["NoNewPrivs"]), int(rows["Seccomp"])) == (1, 2)
    if os.geteuid() == 0:
        assert set(rows["Uid"].split()) != {"0"}
        assert rows["Groups"].split() == []
    kinds = {name.split(":")[0] for name in names}
    assert kinds <= {"/dev/null", "pipe", "socket"}
    assert sum(name.startswith("socket") for name in names) == 1
