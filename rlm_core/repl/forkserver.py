"""The host's side of the fork server: one a process and mode, started when first needed, restarted when it dies."""

from __future__ import annotations

import array
import asyncio
import contextlib
import json
import logging
import os
import resource
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

from rlm_core.repl.sandbox.report import SandboxReport, SandboxUnavailable

log = logging.getLogger("rlm.repl")

_SCRIPT = Path(__file__).with_name("bootstrap.py")
_START_SECONDS = 60.0
_ENVIRONMENT = {
    "LC_ALL": "C.UTF-8",
    "PYTHONHASHSEED": "0",  # sets and dicts of a rollout print in the same order when it is repeated
    "MALLOC_ARENA_MAX": "1",  # each arena would take 64 MiB of a worker's address space
    "PATH": "/nonexistent",
}
"""All that a worker can ever see of an environment."""


class ForkServer:
    """A running fork server."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket, report: SandboxReport) -> None:
        self._process, self._control, self.report = process, control, report
        self.owner = os.getpid()

    @classmethod
    def start(cls, *, sandbox: bool, without: Iterable[str] = ()) -> ForkServer:
        """Start one and wait for its report (about 0.3 s). Raises `SandboxUnavailable` when it cannot even start."""
        if not sys.platform.startswith("linux"):
            raise SandboxUnavailable(f"the REPL needs Linux, this is {sys.platform}: run it in a Linux VM or container")
        _raise_file_limit()
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        options = {"control": theirs.fileno(), "host": os.getpid(), "sandbox": sandbox, "without": sorted(without)}
        # like -I, but with the environment above; -S: no site-packages
        command = [sys.executable, "-P", "-s", "-S", "-B", str(_SCRIPT), json.dumps(options)]
        process = subprocess.Popen(
            command,
            env=_ENVIRONMENT,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
        )
        theirs.close()
        mine.settimeout(_START_SECONDS)
        try:
            data = mine.recv(1 << 20)
        except TimeoutError:
            process.kill()
            data = b""
        if len(data) < 4:
            process.kill()
            _, errors = process.communicate()
            mine.close()
            raise SandboxUnavailable(f"the REPL's fork server did not start: {errors.decode(errors='replace').strip()}")
        (size,) = struct.unpack_from("<I", data)
        report = SandboxReport.from_dict(json.loads(data[4 : 4 + size]))
        if process.stderr is not None:
            process.stderr.close()
        mine.setblocking(False)
        return cls(process, mine, report)

    @property
    def alive(self) -> bool:
        return self.owner == os.getpid() and self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._process.pid

    async def fork(self, limits: dict[str, int | float], channel: int, context: int) -> None:
        """Ask for a worker that serves `channel` and reads `context`. Raises `OSError` when the server is gone."""
        text = json.dumps({"limits": limits}).encode()
        rights = array.array("i", [channel, context]).tobytes()
        while True:
            try:
                self._control.sendmsg([text], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
            except BlockingIOError:
                await asyncio.sleep(0.002)  # its queue is full: it is forking as fast as it can
            else:
                return

    def stop(self) -> None:
        """End it and all its workers."""
        self._control.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def forget(self) -> None:
        """In a forked copy of the host: let go of the parent's server without ending it."""
        with contextlib.suppress(OSError):
            self._control.close()
        self._process.returncode = 0  # it is not this process's child; nothing may wait for it


_servers: dict[bool, ForkServer] = {}
_lock = threading.Lock()


def get(*, sandbox: bool) -> ForkServer:
    """This process's fork server for the mode; started when there is none. Blocks about 0.3 s the first time."""
    with _lock:
        server = _servers.get(sandbox)
        if server is None or not server.alive:
            if server is not None:
                log.warning("the REPL's fork server ended; starting another")
                server.stop()
            server = _servers[sandbox] = ForkServer.start(sandbox=sandbox)
        return server


async def get_async(*, sandbox: bool) -> ForkServer:
    """As `get`, without blocking the event loop while one starts."""
    server = _servers.get(sandbox)
    if server is not None and server.alive:
        return server
    return await asyncio.to_thread(get, sandbox=sandbox)


def retire(server: ForkServer) -> None:
    """Let go of a server that no longer takes requests; the next `get` starts another."""
    with _lock:
        for sandbox, known in list(_servers.items()):
            if known is server:
                del _servers[sandbox]
                server.stop()


def probe() -> SandboxReport:
    """Start a real confined worker and let it try what should be refused (once a process); the report says what holds."""
    try:
        return get(sandbox=True).report
    except SandboxUnavailable as error:
        return SandboxReport((), {}, str(error))


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.Lock()
    for server in _servers.values():
        server.forget()
    _servers.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)


def _raise_file_limit() -> None:
    """A REPL takes two descriptors of the host; the usual soft limit of 1024 would bound it to some 500."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 65_536 if hard == resource.RLIM_INFINITY else min(hard, 65_536)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
