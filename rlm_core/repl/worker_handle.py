"""One worker as the host sees it: frames in and out on an event loop, and a kill that cannot be dodged."""

from __future__ import annotations

import array
import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import Callable
from typing import Any

from rlm_core.repl import forkserver, wire
from rlm_core.repl.limits import ReplLimits

log = logging.getLogger("rlm.repl")

_GROUP = 1 << 2  # PIDFD_SIGNAL_PROCESS_GROUP, Linux 6.9
_CHUNK = 1 << 18
_GONE_SECONDS = 5.0
_SMALL = 4096
"""Bytes; a reading of less that leaves a frame unfinished was not written by the worker's own channel."""
_REST_SECONDS = 0.005


class WorkerGone(RuntimeError):
    """The worker ended or broke the protocol; the message says how, as the model may read it."""


class WorkerHandle:
    """A worker process. `on_message` gets each frame, `on_end` is called once with the reason when it is gone."""

    def __init__(
        self,
        sock: socket.socket,
        limits: ReplLimits,
        on_message: Callable[[dict[str, Any]], None],
        on_end: Callable[[str], None],
    ) -> None:
        self._sock, self._limits = sock, limits
        self._on_message, self._on_end = on_message, on_end
        self._max_frame = (limits.message_mb << 20) + 4 * (
            limits.answer_chars + limits.output_chars + limits.error_chars
        )
        self._max_values = max(wire.MAX_VALUES, limits.answer_chars)
        self._loop = asyncio.get_running_loop()
        self._pidfd = -1
        self._buffer = bytearray()
        self._ended = False
        self._reason_ended = "the worker is gone"
        self._killed = False
        self._outgoing = bytearray()
        self._emptied = asyncio.Event()
        self._emptied.set()
        self.ready: asyncio.Future[None] = self._loop.create_future()
        self._gone: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(sock.fileno(), self._readable)

    @classmethod
    async def spawn(
        cls,
        server: forkserver.ForkServer,
        context: int,
        limits: ReplLimits,
        on_message: Callable[[dict[str, Any]], None],
        on_end: Callable[[str], None],
    ) -> WorkerHandle:
        """Fork a worker and wait until it serves. Raises `WorkerGone` with the reason, or `OSError`."""
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        mine.setblocking(False)
        handle = cls(mine, limits, on_message, on_end)
        try:
            async with asyncio.timeout(limits.open_seconds):
                try:
                    await server.fork(limits.as_dict(), theirs.fileno(), context)
                finally:
                    theirs.close()
                await handle.ready
        except TimeoutError:
            await handle.close()
            raise WorkerGone(f"no worker was ready within open_seconds={limits.open_seconds}") from None
        except BaseException:
            await handle.close()
            raise
        return handle

    async def send(self, message: Any) -> None:
        """Write one frame. It goes out whole even if the caller is cancelled: half a frame would swallow the next.

        Raises `WorkerGone`, or `ValueError` for what is no JSON or too large.
        """
        data = wire.encode(message)
        if len(data) > self._max_frame:
            raise ValueError(f"{len(data)} bytes; at most {self._max_frame} fit into one message (message_mb)")
        if not self._ended:
            self._outgoing += data
            if len(self._outgoing) == len(data):
                self._flush()
            await self._emptied.wait()
        if self._ended:
            raise WorkerGone(self._reason_ended)

    def _flush(self) -> None:
        """Write what the socket takes now; the loop calls this again when it takes more."""
        try:
            sent = self._sock.send(self._outgoing)
        except BlockingIOError:
            sent = 0
        except OSError:  # the worker is gone: `_readable` learns how
            sent = len(self._outgoing)
        del self._outgoing[:sent]
        if not self._outgoing:
            self._end_writing()
        elif self._emptied.is_set():
            self._emptied.clear()
            self._loop.add_writer(self._sock.fileno(), self._flush)

    def _end_writing(self) -> None:
        self._outgoing.clear()
        if not self._emptied.is_set():
            self._loop.remove_writer(self._sock.fileno())
            self._emptied.set()

    def kill(self) -> None:
        """SIGKILL to the whole process group, at once."""
        self._killed = True
        if self._pidfd < 0:
            return
        for flags in (_GROUP, 0):
            try:
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL, None, flags)
            except ProcessLookupError:
                return
            except OSError:
                continue  # an older kernel: the fork server ends the rest of the group when it reaps the leader
            return

    @property
    def pid(self) -> int | None:
        """Its process number as this process sees it; None once it is gone."""
        if self._pidfd < 0:
            return None
        with open(f"/proc/self/fdinfo/{self._pidfd}") as lines:
            numbers = [int(line.split()[1]) for line in lines if line.startswith("Pid:")]
        return numbers[0] if numbers and numbers[0] > 0 else None

    async def close(self) -> None:
        """Kill it, wait until it is gone from the process table, and free its descriptors."""
        self._ended = True
        self._end_writing()
        self.kill()
        if not self._gone.done():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_GONE_SECONDS):
                    await asyncio.shield(self._gone)
        self._hang_up()
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1

    def _hang_up(self) -> None:
        if self._sock.fileno() >= 0:
            self._end_writing()
            self._loop.remove_reader(self._sock.fileno())
            self._sock.close()

    def _readable(self) -> None:
        try:
            data = self._receive()
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data and not self._ended:
            self._buffer += data
            self._take_frames()
            if self._buffer and len(data) < _SMALL and not self._is_trailer(0):
                self._rest()
        elif not data:
            # the fork server closes the last end after it has reaped the worker
            self._hang_up()
            if not self._gone.done():
                self._gone.set_result(None)
            self._finish(self._reason())

    def _rest(self) -> None:
        """Do not look for some ms: a frame that arrives byte by byte must not keep the host busy."""
        if self._sock.fileno() >= 0:
            self._loop.remove_reader(self._sock.fileno())
            self._loop.call_later(_REST_SECONDS, self._look_again)

    def _look_again(self) -> None:
        if self._sock.fileno() >= 0:
            self._loop.add_reader(self._sock.fileno(), self._readable)

    def _receive(self) -> bytes:
        if self._pidfd >= 0:
            return self._sock.recv(_CHUNK)
        data, rights, _, _ = self._sock.recvmsg(_CHUNK, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC)
        for _, _, raw in rights:
            self._pidfd = array.array("i", raw[:4])[0]
        if self._pidfd >= 0 and self._killed:
            self.kill()
        return data

    def _take_frames(self) -> None:
        start = 0
        while not self._ended and len(self._buffer) - start >= wire.HEADER.size:
            (size,) = wire.HEADER.unpack_from(self._buffer, start)
            if size > self._max_frame:
                if self._is_trailer(start):
                    break
                self._violated(f"a message of {size} bytes")
                return
            end = start + wire.HEADER.size + size
            if len(self._buffer) < end:
                break
            body = bytes(self._buffer[start + wire.HEADER.size : end])
            try:
                if size > wire.MAX_VALUES and wire.values_in(body) > self._max_values:
                    raise wire.WireError("a message of too many values")
                message = wire.decode(body)
            except wire.WireError as error:
                self._violated(str(error))
                return
            start = end
            self._dispatch(message)
        if start:
            del self._buffer[:start]

    def _dispatch(self, message: dict[str, Any]) -> None:
        kind = message.get("op")
        if kind == "failed":
            self._finish(str(message.get("error"))[:300])
        elif kind == "ready" and not self.ready.done():
            self.ready.set_result(None)
        elif kind != "hello" or self.ready.done():
            try:
                self._on_message(message)
            except wire.WireError as error:
                self._violated(str(error))

    def _is_trailer(self, start: int) -> bool:
        """Whether all that is left is (the beginning of) what the fork server writes after the worker's death."""
        rest = len(self._buffer) - start
        magic = wire.TRAILER_MAGIC[:rest]
        return rest <= wire.TRAILER.size and self._buffer.startswith(magic, start)

    def _violated(self, what: str) -> None:
        self._finish(f"the code wrote to the REPL's own channel ({what})")

    def _finish(self, reason: str) -> None:
        """The worker is of no use any more: make sure that it is dead and tell whoever waits, once."""
        if self._ended:
            return
        self._reason_ended = reason
        self._ended = True
        self._end_writing()
        self.kill()
        if not self.ready.done():
            self.ready.set_exception(WorkerGone(reason))
        else:
            self._on_end(reason)

    def _reason(self) -> str:
        size = wire.TRAILER.size
        if len(self._buffer) >= size:
            magic, status = wire.TRAILER.unpack_from(self._buffer, len(self._buffer) - size)
            if magic == wire.TRAILER_MAGIC:
                return _in_words(status)
        return "the worker ended"


def _in_words(status: int) -> str:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number == signal.SIGKILL:
            return "the worker was killed by the system (processor time or memory used up)"
        return f"the interpreter crashed ({signal.Signals(number).name})"
    return "the code ended its own process"
