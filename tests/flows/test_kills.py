"""kill -9 of a stage in the middle of its work, then `dvc repro` again: it goes on, and no process is left.

`make proof` runs this (four minutes on 2 cores); `make test` leaves it out.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

Look = Callable[[Path], list[str]]
pytestmark = pytest.mark.proof

ORDER = ["papers", "parse", "ocr", "groups", "queries", "teach", "distill", "sft", "grpo", "evaluate", "report"]
KILLED = {"parse", "ocr", "teach", "sft", "grpo", "evaluate"}


def start(project: Path, stage: str, log: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    environment["RLM_LOCK_DIR"] = str(project / ".cache")  # not the machine's: others may train meanwhile
    with open(log, "ab") as out:
        command = [sys.executable, "-m", "dvc", "repro", "-s", stage]
        return subprocess.Popen(command, cwd=project, env=environment, stdout=out, stderr=subprocess.STDOUT)


def stage_process(dvc: subprocess.Popen[bytes], stage: str) -> psutil.Process | None:
    for child in psutil.Process(dvc.pid).children():
        if f"tasks.{stage}" in " ".join(child.cmdline()):
            return child
    return None


def finished_work(project: Path, stage: str) -> bool:
    """Something that a resume would take up again is on disk."""
    folder = project / ".cache" / stage
    return any(f.is_file() and f.stat().st_size and not f.name.startswith(".") for f in folder.rglob("*"))


def kill_in_the_middle(project: Path, stage: str, log: Path, running_in: Look) -> None:
    dvc = start(project, stage, log)
    deadline = time.monotonic() + 300
    while not finished_work(project, stage):
        assert dvc.poll() is None, f"{stage} ended before it could be killed:\n{log.read_text()[-3000:]}"
        assert time.monotonic() < deadline, f"{stage} finished nothing:\n{log.read_text()[-3000:]}"
        time.sleep(0.02)
    process = stage_process(dvc, stage)
    assert process is not None, f"{stage} was over too soon to be killed"
    process.send_signal(signal.SIGKILL)
    assert dvc.wait(30) != 0
    deadline = time.monotonic() + 15
    while (left := running_in(project)) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert left == []


def test_every_killed_stage_goes_on(project: Path, tmp_path: Path, running_in: Look) -> None:
    for stage in ORDER:
        log = tmp_path / f"{stage}.log"
        if stage in KILLED:
            kill_in_the_middle(project, stage, log, running_in)
        assert start(project, stage, log).wait(600) == 0, log.read_text()[-4000:]
    assert running_in(project) == []
    assert (project / "reports" / "report.html").exists()
