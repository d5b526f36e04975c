"""The one way flows call DVC: a stage at a time, its log streamed, locks waited for, its process group ended with the flow."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path

import yaml

from rlm_core.files import content_key
from rlm_core.processes import spawn_bound, stop_group
from tasks.common import TEMPORARY

_BUSY = re.compile(r"unable to acquire lock|is busy|being (?:read|written) by", re.IGNORECASE)
_TEMPORARY = re.compile(rf"exited with {TEMPORARY}\b")
_UNCHANGED = re.compile(r"^Stage '.*' didn't change, skipping|^Stage '.*' is cached")


class Outcome(StrEnum):
    RAN = "ran"
    CACHED = "cached"
    """DVC found nothing changed since the last run."""


class StageFailed(RuntimeError):
    """`dvc repro` of a stage failed; the message ends with the last lines of its log."""

    def __init__(self, message: str, *, passing: bool = False) -> None:
        super().__init__(message)
        self.passing = passing
        """The stage said that the reason lies outside (an endpoint, a download): another try may do."""


def stage_names(root: Path = Path()) -> list[str]:
    """The stages of dvc.yaml in the order of the file, which is the order of the pipeline."""
    data = yaml.safe_load((root / "dvc.yaml").read_text(encoding="utf-8"))
    return list(data["stages"])


def stages_of_pool(pool: str, root: Path = Path()) -> frozenset[str]:
    """The stages that dvc.yaml marks with `meta: {pool: POOL}`."""
    data = yaml.safe_load((root / "dvc.yaml").read_text(encoding="utf-8"))
    return frozenset(name for name, entry in data["stages"].items() if (entry.get("meta") or {}).get("pool") == pool)


def lock_hash(stage: str, root: Path = Path()) -> str | None:
    """A digest of the stage's entry in dvc.lock (command, dependencies, params, outputs); None when there is none."""
    lock = root / "dvc.lock"
    if not lock.exists():
        return None
    entry = yaml.safe_load(lock.read_text(encoding="utf-8")).get("stages", {}).get(stage)
    return content_key(entry) if entry else None


def repro(
    stage: str,
    *,
    root: Path = Path(),
    env: Mapping[str, str] | None = None,
    force: bool = False,
    on_line: Callable[[str], None] = print,
    busy_seconds: float = 1800.0,
) -> Outcome:
    """Run `dvc repro -s STAGE`; every line of its log goes to `on_line` as it comes.

    Another DVC process that holds the repository is waited for, up to `busy_seconds`, with growing pauses.
    Raises `StageFailed`. However this function is left, no process of the stage remains.
    """
    command = ["repro", "-s", stage] + (["--force"] if force else [])
    tail = run_dvc(command, what=f"stage '{stage}'", root=root, env=env, on_line=on_line, busy_seconds=busy_seconds)
    return Outcome.CACHED if any(_UNCHANGED.match(line) for line in tail) else Outcome.RAN


def run_dvc(
    arguments: Sequence[str],
    *,
    what: str,
    root: Path = Path(),
    env: Mapping[str, str] | None = None,
    on_line: Callable[[str], None] = print,
    busy_seconds: float = 1800.0,
) -> list[str]:
    """Run a DVC command as `repro` does; returns the last lines of its log. `what` names it in the error."""
    command = [sys.executable, "-m", "dvc", *arguments]
    environment = {**os.environ, **(env or {})}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment.get('PATH', '')}"
    environment["PYTHONUNBUFFERED"] = "1"
    deadline, pause = time.monotonic() + busy_seconds, 1.0
    while True:
        code, tail = stream_process(command, root, environment, on_line)
        if code == 0:
            return tail
        busy = any(_BUSY.search(line) for line in tail)
        if not busy or time.monotonic() + pause > deadline:
            log = "\n".join(tail)
            reason = (
                f"another DVC process held the repository for {busy_seconds:.0f} s" if busy else f"exit code {code}"
            )
            passing = any(_TEMPORARY.search(line) for line in tail)
            raise StageFailed(f"{what} failed: {reason}. The end of its log:\n{log}", passing=passing)
        on_line(f"another DVC process is at work here; trying again in {pause:.0f} s")
        time.sleep(pause)
        pause = min(pause * 2, 30.0)


def stream_process(
    command: list[str], root: Path, environment: Mapping[str, str], on_line: Callable[[str], None]
) -> tuple[int, list[str]]:
    """Run to the end, each line of its log to `on_line`; returns the exit code and the last lines."""
    tail: deque[str] = deque(maxlen=40)
    process = spawn_bound(command, env=environment, cwd=str(root), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert process.stdout is not None
    try:
        for raw in process.stdout:
            line = raw.decode("utf-8", errors="replace").rsplit("\r", 1)[-1].rstrip()
            if line:
                tail.append(line)
                on_line(line)
        return process.wait(), list(tail)
    finally:
        process.stdout.close()
        if process.poll() is None:
            logging.getLogger("rlm.flow").warning("stopping %s", " ".join(command[-2:]))
        stop_group(process)
