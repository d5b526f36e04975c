"""Progress of long work as log lines (what, how far, how fast, how long still); readable in a terminal and in a flow's log."""

from __future__ import annotations

import logging
import time
from types import TracebackType
from typing import Self

log = logging.getLogger("rlm.progress")


class Progress:
    """Count finished units; log at most one line every `every_seconds`, and one at the end.

    >>> with Progress("ocr", total=96, unit="pages") as progress:
    ...     progress.advance()
    """

    def __init__(
        self, label: str, total: int, unit: str = "items", *, done: int = 0, every_seconds: float = 5.0
    ) -> None:
        self.label, self.total, self.unit = label, total, unit
        self.done, self._resumed = done, done
        self._every = every_seconds
        self._start = self._last = time.monotonic()

    def __enter__(self) -> Self:
        if self._resumed:
            log.info("%s: %d of %d %s were finished before", self.label, self._resumed, self.total, self.unit)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.finish()

    def finish(self) -> None:
        """Log the last line, where a `with` block does not fit."""
        self._report(final=True)

    def advance(self, count: int = 1, note: str = "") -> None:
        self.done += count
        if time.monotonic() - self._last >= self._every:
            self._report(note=note)

    def _report(self, *, final: bool = False, note: str = "") -> None:
        self._last = time.monotonic()
        seconds = self._last - self._start
        rate = (self.done - self._resumed) / seconds if seconds > 0 else 0.0
        text = f"{self.label}: {self.done}/{self.total} {self.unit}, {rate:.2g}/s"
        if final:
            text += f", {seconds:.1f} s"
        elif rate > 0:
            left = round((self.total - self.done) / rate)
            text += f", about {left // 60}:{left % 60:02d} left"
        log.info("%s", text + (f"; {note}" if note else ""))
