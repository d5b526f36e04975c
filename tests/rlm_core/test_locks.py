"""A lock is waited for with a message, and the kernel frees it when its holder is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from rlm_core.locks import file_lock

HOLD = """
import sys, time
from pathlib import Path
from rlm_core.locks import file_lock
with file_lock(Path(sys.argv[1]), holder="the other one", on_wait=print):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_killed_holder_frees_the_lock(tmp_path: Path) -> None:
    lock = tmp_path / "deep" / "gpu-0.lock"
    other = subprocess.Popen([sys.executable, "-c", HOLD, str(lock)], stdout=subprocess.PIPE)
    assert other.stdout is not None
    assert other.stdout.readline() == b"held\n"
    said: list[str] = []

    def wait_line(line: str) -> None:
        said.append(line)
        os.kill(other.pid, signal.SIGKILL)  # only once this process has met the lock

    with file_lock(lock, holder="me", on_wait=wait_line, poll_seconds=0.01):
        assert other.wait(10) == -signal.SIGKILL
        assert "me" in lock.read_text()
    assert said == [f"gpu-0.lock is held by the other one (process {other.pid}); waiting (0 s)"]


def test_one_at_a_time(tmp_path: Path) -> None:
    """Threads too: each opens the file for itself."""
    inside, most = 0, 0

    def work() -> None:
        nonlocal inside, most
        with file_lock(tmp_path / "x.lock", holder="t", on_wait=lambda line: None, poll_seconds=0.005):
            inside += 1
            most = max(most, inside)
            time.sleep(0.01)
            inside -= 1

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert (inside, most) == (0, 1)


def test_an_error_inside_frees_it(tmp_path: Path) -> None:
    waits: list[str] = []
    with pytest.raises(KeyError), file_lock(tmp_path / "x.lock", holder="t", on_wait=waits.append):
        raise KeyError
    with file_lock(tmp_path / "x.lock", holder="t", on_wait=waits.append):
        assert waits == []
