"""A stage that the machine or a file stops says what, where and what to do; a fault of the code keeps its traceback."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rlm_core.files import DamagedFile
from tasks.faults import fault_of

ROOT = Path(__file__).resolve().parents[2]


def caused(error: Exception, cause: Exception) -> Exception:
    """As `raise error from cause` leaves it."""
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "/tmp/a/b/c"), ["/tmp/a/b/c: No space", "MiB are free", "make room"]),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), [str(Path.cwd()), "quota"]),
        (OSError(errno.EROFS, "Read-only file system", "data"), ["data: Read-only", "mount it for writing"]),
        (PermissionError(errno.EACCES, "Permission denied", "data"), ["data: Permission denied", "give this user"]),
        (OSError(errno.EMFILE, "Too many open files"), ["ulimit -n"]),
        (DamagedFile("x.json: not JSON; delete the file"), ["x.json: not JSON; delete the file"]),
        (RuntimeError("I/O error: No space left on device (os error 28)"), ["make room"]),
        (caused(RuntimeError("saving failed"), OSError(errno.ENOSPC, "No space left on device")), ["make room"]),
    ],
)  # fmt: skip
def test_faults_of_machine_and_files_are_put_as_what_to_do(error: Exception, told: list[str]) -> None:
    message = fault_of(error)
    assert message is not None
    assert all(part in message for part in told), message


@pytest.mark.parametrize(
    "error", [ValueError("x"), OSError("no number"), FileNotFoundError(errno.ENOENT, "x"), KeyError(1)]
)
def test_what_may_be_a_fault_of_the_code_is_none(error: Exception) -> None:
    assert fault_of(error) is None


def stage(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A stage of this code, without MLflow."""
    program = (
        "import contextlib, os, sys, json\nfrom pathlib import Path\nfrom tasks import common\n"
        "from rlm_core.files import *\n"
        "common.open_stage = lambda name: contextlib.nullcontext()\n"
        f"def run(stage):\n    {code}\n"
        "common.stage_main('toy', run)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=env, capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize(
    ("code", "status", "told"),
    [
        ("append_jsonl(Path('/dev/full'), {})", 2, "toy: /dev/full: No space left on device"),
        ("Path('bad.json').write_bytes(b'\\xff'); read_json(Path('bad.json'))", 2, "toy: bad.json: not JSON"),
        ("raise common.StageError('red \\x1b[31m name')", 2, "toy: red \u241b[31m name"),
        ("raise KeyboardInterrupt", 130, "toy: interrupted; what is finished is kept"),
        ("raise ValueError('ours')", 1, "Traceback"),
    ],
)
def test_a_stage_ends_with_one_line_for_a_person(code: str, status: int, told: str, tmp_path: Path) -> None:
    done = stage(code, tmp_path)
    assert done.returncode == status, done.stderr
    assert told in done.stderr
    assert ("Traceback" in done.stderr) == (status == 1)
    assert "\x1b" not in done.stderr
