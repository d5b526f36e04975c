"""A server as a child process: its own process group, its output in a file, and an end that leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

_ERROR = re.compile(r"^(?!.*\bWARNING\b).*\b\w*(Error|Exception): ")


class ServerProcess:
    """Started at once. `stop()` ends the whole process group, politely first."""

    def __init__(self, command: Sequence[str], *, environment: Mapping[str, str], log_path: Path) -> None:
        self.log_path = log_path
        with open(log_path, "wb") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Also the id of its process group."""
        return self._process.pid

    def why_dead(self) -> str | None:
        """Exit code and the end of the log once it has ended; None while it runs."""
        if self._process.poll() is None:
            return None
        return f"the process ended with code {self._process.returncode}; {self.log_tail()}"

    async def stop(self, *, polite_seconds: float = 5.0) -> None:
        """SIGTERM, and after `polite_seconds` SIGKILL for whatever is left of the group."""
        if self._process.poll() is None:
            self._process.terminate()
            await self._until(lambda: self._process.poll() is not None, polite_seconds)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        await self._until(self._group_is_gone, 5.0)  # the kernel takes a moment to free a large process

    def log_tail(self, lines: int = 25) -> str:
        """The last lines of the log, after the first that names an error: what follows is often only its echo."""
        text = self._log_lines()
        first = next((number for number, line in enumerate(text) if _ERROR.search(line)), len(text))
        cause = [] if first >= len(text) - lines else [f"{text[first]}    (line {first + 1})", "..."]
        shown = [line[:300] for line in [*cause, *text[-lines:]]]
        return "\n  ".join([f"its log ({self.log_path}) ends with:", *shown])

    def last_line(self) -> str:
        """The last line of the log, shortened, as a sign of progress."""
        return next((line.strip()[:120] for line in reversed(self._log_lines()) if line.strip()), "")

    def _log_lines(self) -> list[str]:
        try:
            return self.log_path.read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            return []

    def _group_is_gone(self) -> bool:
        try:
            os.killpg(self.pid, 0)
        except (ProcessLookupError, PermissionError):
            return True
        return False

    @staticmethod
    async def _until(done: Callable[[], bool], seconds: float) -> None:
        for _ in range(int(seconds / 0.1)):
            if done():
                return
            await asyncio.sleep(0.1)


def free_port() -> int:
    """A port of the loopback that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def port_fault(port: int) -> str | None:
    """Why nothing can listen on a port of the loopback; None when it is free."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            return error.strerror or str(error)
    return None
