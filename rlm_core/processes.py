"""Processes that end with their parent, also when it is killed with -9: no stage or server outlives its owner."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Ask the kernel to SIGKILL this process when its parent ends (`prctl(PR_SET_PDEATHSIG)`, Linux)."""
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the request took effect
        os.kill(os.getpid(), signal.SIGKILL)


def spawn_bound(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    stdout: int | IO[bytes] | None = None,
    stderr: int | IO[bytes] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a command in a process group of its own; the whole group dies with this process, grandchildren included.

    A small supervisor leads the group: the kernel signals it when its parent ends, and it kills the group. When the command
    ends it ends what that left behind; its exit code is the command's. The signal follows the thread that starts the
    command: keep that one alive.
    """
    supervisor = [sys.executable, "-m", "rlm_core.processes", str(os.getpid()), *command]
    return subprocess.Popen(
        supervisor, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, start_new_session=True
    )


def stop_group(process: subprocess.Popen[bytes], *, grace_seconds: float = 5.0) -> None:
    """SIGTERM to the process group, then SIGKILL to what is left of it after `grace_seconds`."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(grace_seconds)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _supervise(parent: int, command: Sequence[str]) -> int:
    """Run the command as a child in this process's group; on the parent's death kill the group."""

    def kill_group(*_: object) -> None:
        os.killpg(os.getpgrp(), signal.SIGKILL)

    signal.signal(signal.SIGUSR1, kill_group)
    # the group's other members get these too; the supervisor stays to report the command's exit
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, lambda *_: None)
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGUSR1)
    if os.getppid() != parent:
        kill_group()
    code = subprocess.Popen(command).wait()
    _kill_rest_of_group()
    return code if code >= 0 else 128 - code


def _kill_rest_of_group() -> None:
    """SIGKILL what a command left behind in this process's group, e.g. a killed server's workers."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if os.getpgid(int(entry.name)) == os.getpgrp():
                    os.kill(int(entry.name), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(_supervise(int(sys.argv[1]), sys.argv[2:]))
