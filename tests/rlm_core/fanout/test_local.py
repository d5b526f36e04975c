"""Processes: order-free results, errors that belong to their item, crashes, and death with the parent."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rlm_core.fanout.local import WorkerDied, map_processes


def double(number: int) -> int:
    if number == 3:
        raise ValueError("three is refused")
    if number == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return 2 * number


@pytest.mark.slow
def test_every_item_gets_its_result_its_error_or_its_crash(tmp_path):
    # The function must be importable in the workers, which this test module is not.
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import test_local\nfrom rlm_core.fanout.local import map_processes\n"
        "if __name__ == '__main__':\n"
        "    for item, out in map_processes(test_local.double, range(8), workers=2):\n"
        "        print(item, type(out).__name__, out if isinstance(out, int) else '')\n"
    )
    script = tmp_path / "run.py"
    script.write_text(code)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120, check=True)
    rows = sorted(line.split() for line in done.stdout.splitlines())
    assert rows == [
        ["0", "int", "0"],
        ["1", "int", "2"],
        ["2", "int", "4"],
        ["3", "ValueError"],
        ["4", "int", "8"],
        ["5", "WorkerDied"],
        ["6", "int", "12"],
        ["7", "int", "14"],
    ]


def exhaust(what: str) -> str:
    if what == "memory":  # more than this process may have by its own limit; without one the size is no size
        return str(len(bytearray(resource.getrlimit(resource.RLIMIT_DATA)[0])))
    if what == "time":
        while True:
            pass
    return what


@pytest.mark.slow
def test_an_item_made_to_exhaust_the_machine_costs_itself_alone(tmp_path):
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import test_local\nfrom rlm_core.fanout.local import map_processes\n"
        "if __name__ == '__main__':\n"
        "    items = ['memory', 'time', 'a', 'b']\n"
        "    for item, out in map_processes(test_local.exhaust, items, workers=2, cpu_seconds=1):\n"
        "        print(item, out if isinstance(out, str) else type(out).__name__)\n"
    )
    script = tmp_path / "run.py"
    script.write_text(code)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=200, check=True)
    rows = sorted(done.stdout.splitlines())
    assert rows == ["a a", "b b", "memory MemoryError", "time WorkerDied"]


def test_nothing_to_do_starts_no_process():
    assert list(map_processes(double, [], workers=2)) == []
    assert issubclass(WorkerDied, RuntimeError)


@pytest.mark.slow
def test_workers_die_with_a_killed_parent(tmp_path):
    script = tmp_path / "run.py"
    script.write_text(
        "import os, time\nfrom rlm_core.fanout.local import map_processes\n"
        f"def linger(n):\n    open({str(tmp_path)!r} + f'/{{os.getpid()}}.pid', 'w').close(); time.sleep(60)\n"
        "if __name__ == '__main__':\n    list(map_processes(linger, range(2), workers=2))\n"
    )
    parent = subprocess.Popen([sys.executable, script])
    try:
        deadline = time.monotonic() + 60
        while len(pids := [int(p.stem) for p in tmp_path.glob("*.pid")]) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(pids) == 2
    finally:
        parent.kill()
        parent.wait()
    deadline = time.monotonic() + 10
    while any(_alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(_alive(pid) for pid in pids)


def _alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as handle:
            return handle.read().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
