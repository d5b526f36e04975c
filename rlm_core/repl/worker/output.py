"""What a block prints: head and tail are kept, the rest is counted, memory stays bounded."""

from __future__ import annotations

import io
import threading
from collections import deque


def shorten(text: str, limit: int) -> str:
    """`text` when it has at most `limit` characters, else its first and last half with the number cut in between.

    >>> shorten("abcdefghij", 4)
    'ab\\n[... 6 characters cut ...]\\nij'
    """
    if len(text) <= limit:
        return text
    head, tail = limit - limit // 2, limit // 2
    return join_cut(text[:head], text[len(text) - tail :] if tail else "", len(text) - limit)


def join_cut(head: str, tail: str, missing: int) -> str:
    marker = f"[... {missing} characters cut ...]"
    return "\n".join(part for part in (head, marker, tail) if part)


class BoundedOutput(io.TextIOBase):
    """A text stream that keeps what `shorten` would keep of everything written to it, in at most ~3 * limit characters."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit
        self._lock = threading.Lock()
        self.buffer = _Bytes(self)
        self.reset()

    encoding = "utf-8"
    errors = "replace"

    def reset(self) -> None:
        self._head: list[str] = []
        self._room = self._limit
        self._tail: deque[str] = deque()
        self._tail_chars = 0
        self._total = 0

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        with self._lock:
            self._total += len(text)
            if self._room:
                self._head.append(text[: self._room])
                rest = text[self._room :]
                self._room -= min(self._room, len(text))
            else:
                rest = text
            if rest and self._limit:
                self._tail.append(rest[-self._limit :])
                self._tail_chars += len(self._tail[-1])
                while self._tail_chars - len(self._tail[0]) >= self._limit:
                    self._tail_chars -= len(self._tail.popleft())
                if len(self._tail) > 1024:
                    joined = "".join(self._tail)[-self._limit :]
                    self._tail = deque([joined])
                    self._tail_chars = len(joined)
                if len(self._head) > 1024:
                    self._head = ["".join(self._head)]
            return len(text)

    def value(self) -> str:
        with self._lock:
            head, tail = "".join(self._head), "".join(self._tail)
        if self._total <= self._limit:
            return head
        kept = self._limit // 2
        end = (head + tail)[-kept:] if kept else ""
        return join_cut(head[: self._limit - kept], end, self._total - self._limit)


class _Bytes(io.RawIOBase):
    """`sys.stdout.buffer`."""

    def __init__(self, text: BoundedOutput) -> None:
        super().__init__()
        self._text = text

    def writable(self) -> bool:
        return True

    def write(self, data, /):  # type: ignore[no-untyped-def]
        self._text.write(bytes(data).decode("utf-8", "replace"))
        return len(data)
