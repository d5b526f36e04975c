"""What a process starts by `spawn_bound` ends with it: the command, and what the command started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from rlm_core.processes import spawn_bound, stop_group

SLEEPER = "import time; print(1, flush=True); time.sleep(60)"
GRANDCHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SLEEPER!r}])"
OWNER = f"""
import subprocess, sys, time
from rlm_core.processes import spawn_bound
process = spawn_bound([sys.executable, "-c", {GRANDCHILD!r}], stdout=subprocess.PIPE)
process.stdout.readline()
print(process.pid, flush=True)
time.sleep(60)
"""


def members(group: int) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue
    return found


def all_gone(group: int, seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while members(group) and time.monotonic() < deadline:
        time.sleep(0.05)
    return members(group) == []


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM])
def test_a_group_dies_with_its_owner(signum: signal.Signals) -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE)
    assert owner.stdout is not None
    group = int(owner.stdout.readline())
    assert len(members(group)) == 3  # supervisor, command, grandchild
    owner.send_signal(signum)
    owner.wait()
    assert all_gone(group)


def test_a_killed_command_leaves_nothing_behind() -> None:
    process = spawn_bound([sys.executable, "-c", GRANDCHILD], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    command = next(p for p in members(process.pid) if p.ppid() == process.pid)
    command.kill()
    assert process.wait(10) == 137
    assert all_gone(process.pid)


def test_exit_codes_and_folder_are_the_commands(tmp_path: Path) -> None:
    assert spawn_bound([sys.executable, "-c", "raise SystemExit(7)"]).wait() == 7
    assert spawn_bound([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"]).wait() == 137
    spawn_bound([sys.executable, "-c", "open('here', 'w')"], cwd=str(tmp_path)).wait()
    assert (tmp_path / "here").exists()


def test_stop_is_gentle_first_and_firm_after() -> None:
    gentle = "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(3)); print(1, flush=True); time.sleep(60)"
    process = spawn_bound([sys.executable, "-c", gentle], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    stop_group(process)
    assert process.returncode == 3
    stubborn = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"
    process = spawn_bound([sys.executable, "-c", stubborn], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    stop_group(process, grace_seconds=0.5)
    assert all_gone(process.pid)
