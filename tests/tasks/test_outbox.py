"""Records outlive a store that is down, a process that is killed and a file that is cut short; none is lost or doubled."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tasks.outbox import Outbox, Record, Refused, append, last_record, left_behind

PAUSES = (0.01, 0.02)


class FlakyStore:
    """Takes records while it is up."""

    def __init__(self, up: bool = True) -> None:
        self.up = threading.Event()
        self.taken: list[int] = []
        if up:
            self.up.set()

    def __call__(self, record: Record) -> None:
        if not self.up.is_set():
            raise ConnectionError("down")
        if record["n"] < 0:
            raise Refused("negative")
        self.taken.append(record["n"])


def fill(outbox: Outbox, numbers: range) -> None:
    for n in numbers:
        outbox.add({"op": "test", "run": outbox.file.stem, "n": n})


def test_records_arrive_in_order_and_leave_no_file(tmp_path: Path) -> None:
    store = FlakyStore()
    outbox = Outbox(tmp_path / "a.jsonl", store)
    fill(outbox, range(100))
    assert outbox.flush(10)
    fill(outbox, range(100, 110))
    assert outbox.close(10) == 0
    assert store.taken == list(range(110))
    assert list(tmp_path.iterdir()) == []


def test_an_outage_delays_and_loses_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = FlakyStore(up=False)
    outbox = Outbox(tmp_path / "a.jsonl", store, pauses=PAUSES)
    fill(outbox, range(20))
    assert not outbox.flush(0.1)
    store.up.set()
    assert outbox.flush(10)
    store.up.clear()
    fill(outbox, range(20, 30))
    store.up.set()
    assert outbox.close(10) == 0
    assert store.taken == list(range(30))
    assert any("does not take records (down)" in message for message in caplog.messages)


def test_what_is_refused_is_told_and_passed_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = FlakyStore()
    outbox = Outbox(tmp_path / "a.jsonl", store)
    fill(outbox, range(-1, 2))
    assert outbox.close(10) == 0
    assert (store.taken, outbox.refused) == ([0, 1], 1)
    assert "a record was refused (test): negative" in caplog.text


def test_what_stays_is_sent_by_the_next_owner_first(tmp_path: Path) -> None:
    store = FlakyStore(up=False)
    outbox = Outbox(tmp_path / "a.jsonl", store, pauses=PAUSES)
    fill(outbox, range(5))
    assert outbox.close(0.05) == 5
    with pytest.raises(ValueError, match="closed"):
        fill(outbox, range(1))
    outbox._thread.join(5)
    store.up.set()
    assert left_behind(tmp_path) == []  # its owner still lives
    outbox._out.close()
    assert left_behind(tmp_path) == [tmp_path / "a.jsonl"]
    second = Outbox(tmp_path / "b.jsonl", store, first=left_behind(tmp_path))
    fill(second, range(5, 8))
    assert second.close(10) == 0
    assert store.taken == list(range(8))
    assert list(tmp_path.iterdir()) == []


def test_a_killed_process_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """It is killed while the store has taken half of what was added."""
    script = """
import sys, pathlib
from tasks.outbox import Outbox
taken = open("taken", "a")
def send(record):
    if record["n"] >= 10:
        raise ConnectionError("down")
    print(record["n"], file=taken, flush=True)
outbox = Outbox(pathlib.Path("box/a.jsonl"), send)
for n in range(20):
    outbox.add({"op": "test", "run": "a", "n": n})
while len(open("taken").readlines()) < 10:
    pass
print("ready", flush=True)
sys.stdin.read()
"""
    root = str(Path(__file__).resolve().parents[2])
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": root},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    box = tmp_path / "box"
    with open(box / "a.jsonl", "ab") as file:
        file.write(b'{"op": "te')  # cut short
    assert last_record(box / "a.jsonl") == {"op": "test", "run": "a", "n": 19}
    append(box / "a.jsonl", {"op": "test", "run": "a", "n": 20})
    store = FlakyStore()
    second = Outbox(box / "b.jsonl", store, first=left_behind(box))
    assert second.close(10) == 0
    taken = [int(line) for line in (tmp_path / "taken").read_text().split()]
    # the mark is written after the record is taken: at most the one in flight may come twice
    assert taken + store.taken in (list(range(21)), [*range(10), 9, *range(10, 21)])
    assert list(box.iterdir()) == []


def test_half_a_line_is_waited_for(tmp_path: Path) -> None:
    """A reader that sees a record while it is being written takes the whole of it later."""
    store = FlakyStore()
    outbox = Outbox(tmp_path / "a.jsonl", store)
    line = json.dumps({"op": "test", "run": "a", "n": 1}).encode() + b"\n"
    with outbox._changed:
        outbox._out.write(line[:7])
        outbox._out.flush()
        outbox._changed.notify_all()
    threading.Event().wait(0.05)
    with outbox._changed:
        outbox._out.write(line[7:])
        outbox._out.flush()
        outbox._added += 1
        outbox._changed.notify_all()
    assert outbox.close(10) == 0
    assert store.taken == [1]


def test_junk_in_an_outbox_or_its_marks_stops_no_other_record(tmp_path: Path) -> None:
    good = json.dumps({"op": "test", "run": "a", "n": 1}).encode() + b"\n"
    (tmp_path / "a.jsonl").write_bytes(b"\x00\xff\n" + good + b"[1]\n" + good.replace(b"1", b"2") + b"{}\n")
    (tmp_path / "a.sent").write_bytes(b"\xff\xfe\n")
    assert left_behind(tmp_path) == [tmp_path / "a.jsonl"]
    assert last_record(tmp_path / "a.jsonl") == {"op": "test", "run": "a", "n": 2}
    store = FlakyStore()
    outbox = Outbox(tmp_path / "b.jsonl", store, first=left_behind(tmp_path))
    fill(outbox, range(3, 5))
    assert outbox.close(10) == 0
    assert store.taken == [1, 2, 3, 4]
    assert list(tmp_path.iterdir()) == []
