"""Flows call DVC: logs are streamed, unchanged stages are told apart, locks are waited for, and nothing outlives a flow."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from flows.dvc import Outcome, StageFailed, repro, stage_names

pytestmark = pytest.mark.slow

STAGES = """
stages:
  fine:
    cmd: exec python -c "import pathlib; print('made it'); pathlib.Path('fine.txt').write_text('1')"
    outs: [fine.txt]
  broken:
    cmd: exec python -c "raise SystemExit('the oven is cold')"
  sleeper:
    cmd: exec python sleeper.py
    outs: [slept.txt]
"""
SLEEPER = """
import os, pathlib, time
from rlm_core.processes import die_with_parent
die_with_parent()
pathlib.Path('pid').write_text(str(os.getpid()))
time.sleep(120)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "dvc.yaml").write_text(STAGES)
    (tmp_path / "sleeper.py").write_text(SLEEPER)
    subprocess.run([sys.executable, "-m", "dvc", "init", "--no-scm", "-q"], cwd=tmp_path, check=True)
    return tmp_path


def test_a_stage_runs_once_and_is_cached_after(project: Path) -> None:
    assert stage_names(project) == ["fine", "broken", "sleeper"]
    lines: list[str] = []
    assert repro("fine", root=project, on_line=lines.append) is Outcome.RAN
    assert "made it" in lines
    assert repro("fine", root=project) is Outcome.CACHED
    assert repro("fine", root=project, force=True) is Outcome.RAN


def test_a_failure_ends_with_the_log(project: Path) -> None:
    with pytest.raises(StageFailed, match=r"(?s)stage 'broken' failed: exit code .*the oven is cold"):
        repro("broken", root=project)


def wait_for_pid(project: Path) -> psutil.Process:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if (project / "pid").exists() and (text := (project / "pid").read_text()):
            return psutil.Process(int(text))
        time.sleep(0.05)
    raise AssertionError("the stage did not start")


def gone(process: psutil.Process, seconds: float = 10.0) -> bool:
    try:
        process.wait(seconds)
    except psutil.TimeoutExpired:
        return False
    return True


FLOW = "import sys; from pathlib import Path; from flows.dvc import repro; repro('sleeper', root=Path(sys.argv[1]))"


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_flow_leaves_no_stage(project: Path, signum: signal.Signals) -> None:
    flow = subprocess.Popen([sys.executable, "-c", FLOW, str(project)], stdout=subprocess.DEVNULL)
    stage = wait_for_pid(project)
    os.kill(flow.pid, signum)
    flow.wait()
    assert gone(stage)


def test_a_busy_repository_is_waited_for(project: Path) -> None:
    """A second run of the same stage waits for the first, and says so."""
    holder = subprocess.Popen([sys.executable, "-c", FLOW, str(project)], stdout=subprocess.DEVNULL)
    stage = wait_for_pid(project)
    threading.Timer(6.0, stage.kill).start()
    lines: list[str] = []
    (project / "sleeper.py").write_text("print('second'); open('slept.txt', 'w')")
    assert repro("sleeper", root=project, on_line=lines.append) is Outcome.RAN
    assert any("another DVC process is at work" in line for line in lines)
    assert "second" in lines
    holder.wait()
