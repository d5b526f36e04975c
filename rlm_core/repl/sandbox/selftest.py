"""What a confined worker tries once, before any model-written code runs: forbidden things must fail, allowed things work.

Runs inside the worker, after all layers. Each check names what was tried; True means that it went as it should.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from rlm_core.repl.sandbox import libc
from rlm_core.repl.sandbox.syscalls import REFUSED, number

_READS = (
    "/etc/passwd",
    "/etc/hostname",
    "/proc/self/environ",
    "/proc/1/environ",
    "/proc/1/maps",
    "/root",
    "/home",
    "/",
)
_WRITES = ("/probe", "/tmp/probe", "/var/tmp/probe", "/dev/shm/probe", "/usr/lib/probe")


def run(*, scratch_mb: int, threads: int, memory_mb: int, stdlib: str) -> dict[str, bool]:
    checks: dict[str, bool] = {}
    for path in _READS:
        checks[f"read {path}"] = _refused(partial(_read, path))
    for path in (*_WRITES, f"{stdlib}/probe"):
        checks[f"write {path}"] = _refused(partial(_write, path))
    for name in REFUSED:
        checks[f"call {name}"] = _refused_call(name)
    checks["signal to the parent"] = _refused(lambda: os.kill(os.getppid() or 1, 0))
    checks["signal to every process"] = _refused(lambda: os.kill(-1, 0))
    checks["processor time of another process"] = _refused(lambda: time.clock_gettime(~1 << 3 | 2))
    checks["processors of another process"] = _refused(lambda: os.sched_getaffinity(1))
    checks["new process (fork)"] = _refused(_fork)
    checks["other program (exec)"] = _refused(lambda: os.execv("/proc/self/exe", ["x"]))
    checks["become root"] = _refused(lambda: os.setresuid(0, 0, 0))
    checks["more memory than allowed"] = _refused(lambda: bytearray(memory_mb * 5 << 18))
    checks[f"more than {threads} threads"] = _refused(lambda: _threads(threads + 1))
    checks["allowed: a module of the standard library"] = _works(_import_module)
    if threads:
        checks["allowed: a thread"] = _works(lambda: _threads(1))
    if scratch_mb:
        checks["allowed: a file in the scratch folder"] = _works(lambda: _write("probe"))
        checks["more than the scratch folder holds"] = _refused(lambda: _fill(scratch_mb))
    return checks


def _refused(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except (OSError, MemoryError, RuntimeError):
        return True
    return False


def _works(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except (OSError, MemoryError, RuntimeError, ImportError):
        return False
    return True


def _refused_call(name: str) -> bool:
    call = number(REFUSED, name)
    assert call is not None
    try:
        libc.syscall(call, 1, 0, 0, 0, 0)
    except OSError as error:
        return error.errno == errno.EPERM
    return False


def _read(path: str) -> None:
    if Path(path).is_dir():
        list(Path(path).iterdir())
    else:
        with open(path, "rb") as handle:
            handle.read(1)


def _write(path: str) -> None:
    try:
        with open(path, "wb") as handle:
            handle.write(b"x")
    finally:
        with contextlib.suppress(OSError):
            Path(path).unlink()


def _fork() -> None:
    if os.fork() == 0:
        os._exit(0)


def _fill(size_mb: int) -> None:
    names = [f"fill{n}" for n in range(3)]
    try:
        for name in names:
            with open(name, "wb") as handle:
                for _ in range(size_mb):
                    handle.write(bytes(1 << 20))
    finally:
        for name in names:
            with contextlib.suppress(OSError):
                Path(name).unlink()


def _threads(count: int) -> None:
    release = threading.Event()
    started = []
    try:
        for _ in range(count):
            thread = threading.Thread(target=release.wait)
            thread.start()
            started.append(thread)
    finally:
        release.set()
        for thread in started:
            thread.join()


def _import_module() -> None:
    importlib.import_module("colorsys")
