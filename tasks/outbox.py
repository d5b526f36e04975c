"""Records on their way to a store that may be down or slow: written to a file first, sent in order by a thread.

Whoever adds a record never waits for the store. What a run could not send stays in its file and is sent by the next run,
before that one's own records. The file, not memory, is the queue, so a long outage costs disk only.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

log = logging.getLogger("rlm.outbox")

Record = Mapping[str, Any]
PAUSES = (0.5, 30.0)
"""Seconds before the first new try, doubled up to the second figure."""


class Refused(Exception):
    """The store said no to a record, and would say so again."""


class Outbox:
    """`FILE.jsonl` holds the records, `FILE.sent` how many bytes of it were sent; both go when all was sent.

    `first`: files that earlier owners left, sent before. `send` raises `Refused` for a record that is hopeless, which is
    logged, counted and passed over; any other error counts as an outage: the record is tried again until it is taken.
    """

    def __init__(
        self,
        file: Path,
        send: Callable[[Record], None],
        *,
        first: Sequence[Path] = (),
        pauses: tuple[float, float] = PAUSES,
    ) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self.file = file
        self.refused = 0
        self._send, self._pauses = send, pauses
        self._changed = threading.Condition()
        self._added = self._done = 0
        self._closing = False
        self._give_up = threading.Event()
        self._out = open(file, "ab")  # noqa: SIM115 - closed when all is sent
        fcntl.flock(self._out, fcntl.LOCK_EX)  # a file without its lock has lost its owner
        self._thread = threading.Thread(target=self._run, args=(list(first),), name="outbox", daemon=True)
        self._thread.start()

    def add(self, record: Record) -> None:
        """Keep a record: JSON data. It survives this process being killed as soon as this returns."""
        line = json.dumps(record, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        with self._changed:
            if self._closing:
                raise ValueError("this outbox is closed")
            self._out.write(line)
            self._out.flush()
            self._added += 1
            self._changed.notify_all()

    def flush(self, seconds: float) -> bool:
        """Wait until all that was added is sent; False when that takes longer."""
        with self._changed:
            return self._changed.wait_for(lambda: self._done == self._added, timeout=seconds)

    def close(self, seconds: float) -> int:
        """Send what is left, for at most so long; returns the number of records that stay in the file."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(seconds)
        self._give_up.set()
        left = self._added - self._done
        if not self._thread.is_alive():
            self._out.close()
        if left:
            log.warning("%d records could not be sent; they are kept in %s and sent by the next run", left, self.file)
        return left

    def _run(self, first: Sequence[Path]) -> None:
        for path in first:
            with _owned(path) as file:
                if file is not None:
                    self._drain(path, own=False)
        self._drain(self.file, own=True)

    def _drain(self, path: Path, *, own: bool) -> None:
        with open(path, "rb") as source, open(path.with_suffix(".sent"), "a+b") as marks:
            source.seek(_sent(marks))
            while True:
                line = source.readline()
                if line.endswith(b"\n"):
                    if (record := _record(line)) is None:
                        log.error("%s: a damaged record is passed over", path)
                    elif not self._deliver(record, path):
                        return
                    _mark(marks, source.tell())
                    if own:
                        self._count()
                elif own and self._wait_for_more():
                    source.seek(-len(line), 1)
                else:
                    break  # at its end; half a line is what a kill cut short
        path.unlink()
        path.with_suffix(".sent").unlink()

    def _deliver(self, record: Record, path: Path) -> bool:
        """Until the store takes or refuses it; False when there is no more time."""
        pause, told = self._pauses[0], False
        while True:
            try:
                self._send(record)
            except Refused as error:
                self.refused += 1
                log.error("a record was refused (%s): %s", record.get("op", "?"), error)
            except Exception as error:  # noqa: BLE001 - whatever it is, the record must not be lost
                if not told:
                    log.warning("the store does not take records (%s); they are kept in %s until it does", error, path)
                    told = True
                if self._give_up.wait(pause):
                    return False
                pause = min(2 * pause, self._pauses[1])
                continue
            if told:
                log.info("the store takes records again")
            return True

    def _count(self) -> None:
        with self._changed:
            self._done += 1
            self._changed.notify_all()

    def _wait_for_more(self) -> bool:
        """False when all was sent and nothing more will come."""
        with self._changed:
            self._changed.wait_for(lambda: self._closing or self._done < self._added)
            return self._done < self._added


def left_behind(folder: Path) -> list[Path]:
    """Outboxes whose owner is gone, in the order in which they were begun: a run comes before those nested under it."""
    found = []
    for path in folder.glob("*.jsonl"):
        with _owned(path) as file:
            if file is not None:
                first = _record(file.readline()) or {}
                found.append((first.get("at", 0), path))
    return [path for _, path in sorted(found)]


def last_record(path: Path) -> dict[str, Any] | None:
    """The last whole record of a file."""
    last = None
    with open(path, "rb") as source:
        for line in source:
            last = _record(line) or last
    return last


def _record(line: bytes) -> dict[str, Any] | None:
    """The record of a line; None for one that a kill cut short or a disk damaged."""
    if not line.endswith(b"\n"):
        return None
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and {"op", "run"} <= record.keys() else None


def append(path: Path, record: Record) -> None:
    """Add a record to a file whose owner is gone; a line that a kill cut short is removed."""
    with _owned(path) as file:
        if file is None:
            return
        data = path.read_bytes()
        file.truncate(data.rfind(b"\n") + 1)
        file.seek(0, 2)
        file.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")


@contextlib.contextmanager
def _owned(path: Path) -> Iterator[BinaryIO | None]:
    """The file, locked; None when it has an owner or is gone."""
    try:
        file = open(path, "r+b")  # noqa: SIM115 - one message for a missing file, then a with block
    except FileNotFoundError:
        yield None
        return
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        yield file


def _sent(marks: BinaryIO) -> int:
    """Bytes sent, by the last whole mark."""
    marks.seek(0)
    whole = [line for line in marks.read().split(b"\n")[:-1] if line.isdigit()]
    return int(whole[-1]) if whole else 0


def _mark(marks: BinaryIO, offset: int) -> None:
    marks.write(b"%d\n" % offset)
    marks.flush()


def now_ms() -> int:
    return time.time_ns() // 1_000_000
