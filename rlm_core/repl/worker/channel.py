"""The worker's end of the channel: whole frames out, and replies handed to the thread that waits for them."""

from __future__ import annotations

import os
import threading
from typing import Any

from rlm_core.repl import wire
from rlm_core.repl.worker.subcalls import SubcallError

_EXEC = "exec"


class Closed(Exception):
    """The host is gone."""


class Channel:
    """Any thread may ask; whichever thread waits first reads for all, so no extra thread is needed."""

    def __init__(self, descriptor: int, max_bytes: int) -> None:
        self._fd, self._max_bytes = descriptor, max_bytes
        self._write_lock = threading.Lock()
        self._turn = threading.Condition()
        self._reading = False
        self._inbox: dict[Any, dict[str, Any]] = {}
        self._next_id = 0
        self._read, self._write = os.read, os.write

    def send(self, message: dict[str, Any]) -> None:
        self.send_frame(wire.encode(message))

    def send_frame(self, frame: bytes) -> None:
        view = memoryview(frame)
        with self._write_lock:
            try:
                while view:
                    view = view[self._write(self._fd, view) :]
            except OSError as error:
                raise Closed(str(error)) from None

    def next_block(self) -> dict[str, Any]:
        """Wait for the next block to run; raises `Closed`."""
        return self._wait_for(_EXEC)

    def ask(self, name: str, arguments: dict[str, Any]) -> Any:
        """Make a sub-call and wait for its value; raises `SubcallError` when it is refused or too large."""
        with self._turn:
            self._next_id += 1
            call = self._next_id
        try:
            frame = wire.encode({"op": "call", "id": call, "name": name, "args": arguments})
        except (ValueError, TypeError, RecursionError) as error:
            raise TypeError(f"{name}: the arguments must be texts, numbers, lists and dicts ({error})") from None
        if len(frame) > wire.MAX_VALUES and wire.values_in(frame) > wire.MAX_VALUES:
            raise SubcallError(f"{name}: the context holds more than {wire.MAX_VALUES} values; hand it over as a text")
        if len(frame) > self._max_bytes:
            raise SubcallError(f"{name}: {len(frame)} bytes of arguments; at most {self._max_bytes} can be handed over")
        self.send_frame(frame)
        reply = self._wait_for(call)
        if reply.get("error") is not None:
            raise SubcallError(str(reply["error"]))
        return reply.get("value")

    def _wait_for(self, key: Any) -> dict[str, Any]:
        with self._turn:
            while True:
                if key in self._inbox:
                    return self._inbox.pop(key)
                if not self._reading:
                    self._reading = True
                    break
                self._turn.wait()
        try:
            while True:
                message = self._receive()
                kind = _EXEC if message["op"] == _EXEC else message["id"]
                if kind == key:
                    return message
                with self._turn:
                    self._inbox[kind] = message
                    self._turn.notify_all()
        finally:
            with self._turn:
                self._reading = False
                self._turn.notify_all()

    def _receive(self) -> dict[str, Any]:
        (size,) = wire.HEADER.unpack(self._exactly(wire.HEADER.size))
        return wire.decode(self._exactly(size))

    def _exactly(self, size: int) -> bytes:
        first = self._read(self._fd, size)
        if len(first) == size:
            return first
        parts, have = [first], len(first)
        while first and have < size:
            first = self._read(self._fd, min(size - have, 1 << 20))
            parts.append(first)
            have += len(first)
        if have < size:
            raise Closed("the host closed the channel")
        return b"".join(parts)
