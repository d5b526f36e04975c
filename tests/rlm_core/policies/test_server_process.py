"""A child process with small programs in place of a server."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from pathlib import Path

import psutil
import pytest

from rlm_core.policies.server_process import ServerProcess, free_port, port_fault


def start(tmp_path: Path, code: str) -> ServerProcess:
    return ServerProcess([sys.executable, "-c", code], environment=dict(os.environ), log_path=tmp_path / "log")


async def until_logged(process: ServerProcess, text: str) -> str:
    end = time.monotonic() + 20
    while text not in process.last_line():
        assert time.monotonic() < end, process.log_tail()
        await asyncio.sleep(0.02)
    return process.last_line()


async def test_stop_ends_children_that_ignore_signals(tmp_path: Path):
    child = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
    )
    code = f"import subprocess, sys, time; p = subprocess.Popen([sys.executable, '-c', {child!r}]); p.wait()"
    process = start(tmp_path, code)
    await until_logged(process, "up")
    (grandchild,) = psutil.Process(process.pid).children()
    assert process.why_dead() is None
    before = time.monotonic()
    await process.stop()
    assert time.monotonic() - before < 5
    assert not grandchild.is_running() or grandchild.status() == psutil.STATUS_ZOMBIE
    assert process.why_dead() is not None


async def test_what_does_not_end_politely_is_killed(tmp_path: Path):
    process = start(
        tmp_path, "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
    )
    await until_logged(process, "up")
    await process.stop(polite_seconds=0.3)
    assert "ended with code -9" in str(process.why_dead())


async def test_the_tail_keeps_the_first_error_and_skips_warnings(tmp_path: Path):
    lines = ["WARNING maybe OSError: later", "RuntimeError: the cause", *[f"echo {i}" for i in range(50)]]
    process = start(tmp_path, "import sys; print(sys.argv[0]); " + f"print({chr(10).join(lines)!r}); sys.exit(4)")
    process._process.wait()
    tail = process.log_tail(lines=3).splitlines()
    assert tail[1:] == ["  RuntimeError: the cause    (line 3)", "  ...", "  echo 47", "  echo 48", "  echo 49"]
    assert str(process.why_dead()).startswith("the process ended with code 4; its log")


def test_ports():
    assert port_fault(free_port()) is None
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert port_fault(taken.getsockname()[1]) == os.strerror(98)


@pytest.mark.parametrize("how", ["forked", "spawned"])
def test_children_of_the_server_ask_to_die_with_their_parent(how: str, tmp_path: Path):
    """Without vLLM: a main module that starts as `vllm_main` does, and a child of it made by multiprocessing."""
    import subprocess

    program = tmp_path / "program.py"
    program.write_text(
        "import multiprocessing, os, sys, time\n"
        "from rlm_core.policies import vllm_main\n"
        "vllm_main.bind(__name__)\n"
        "def sleep():\n    time.sleep(60)\n"
        "if __name__ == '__main__':\n"
        f"    child = multiprocessing.get_context({'fork' if how == 'forked' else 'spawn'!r}).Process(target=sleep)\n"
        "    child.start()\n"
        "    print(child.pid, flush=True)\n"
        "    child.join()\n"
    )
    parent = subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = psutil.Process(int(parent.stdout.readline()))
    time.sleep(1.0 if how == "spawned" else 0.1)  # a spawned child imports the program first
    assert child.is_running()
    parent.kill()
    parent.wait()
    child.wait(timeout=10)
