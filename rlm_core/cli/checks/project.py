"""The folder one is in: its params, installed versions against the lock, records that MLflow has not got yet."""

from __future__ import annotations

import fcntl
import importlib.metadata
import re
from pathlib import Path

from rlm_core.cli.checks.finding import Finding
from rlm_core.params import Params, ParamsError, load_params

_PIN = re.compile(r"(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;]+)")
SHOWN = 4
"""Packages named."""


def params(folder: Path = Path()) -> tuple[Finding, Params | None]:
    """The finding and, where the file is valid, what it says."""
    file = folder / "params.yaml"
    if not file.exists():
        return Finding(
            "params.yaml", "not in this folder", "note", "run this in a project folder: rlm-forge init DIR makes one"
        ), None
    try:
        return Finding("params.yaml", "valid"), load_params(file)
    except ParamsError as error:
        remedy = "mend the keys named here; `rlm-forge params describe` explains them"
        return Finding("params.yaml", str(error), "bad", remedy), None


def installed(name: str) -> str | None:
    """The version of a distribution; None if it is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def lock(folder: Path = Path()) -> Finding:
    """The lock of the kind of environment that this is, against what is installed."""
    torch = installed("torch")
    kind = "control" if torch is None else "cpu" if "+cpu" in torch else "gpu"
    file = folder / "requirements" / f"{kind}.txt"
    if not file.exists():
        return Finding("packages", "no lock in this folder", "note", "run this in a project folder to compare them")
    pins = read_lock(file.read_text(encoding="utf-8"))
    other = [
        f"{name} {have or 'missing'} (lock: {want})" for name, want in pins.items() if (have := installed(name)) != want
    ]
    if not other:
        return Finding("packages", f"all {len(pins)} as in requirements/{kind}.txt")
    more = f" and {len(other) - SHOWN} more" if len(other) > SHOWN else ""
    return Finding("packages", ", ".join(other[:SHOWN]) + more, "bad", f"rm .venv/.lock-sha256; make setup ENV={kind}")


def read_lock(text: str) -> dict[str, str]:
    """Name -> version of every pin."""
    return {match["name"]: match["version"] for line in text.splitlines() if (match := _PIN.match(line.strip()))}


def outboxes(folder: Path = Path(".cache/mlflow")) -> Finding:
    """Records of runs that ended before MLflow had them; a file that nobody holds has lost its owner."""
    left = [path for path in folder.glob("*/*.jsonl") if not _held(path)]
    if not left:
        return Finding("MLflow records", "none waits to be sent")
    size = sum(path.stat().st_size for path in left) / 1024
    found = f"{len(left)} ended run(s) left {size:.0f} KiB unsent in {folder}"
    return Finding("MLflow records", found, "note", "start MLflow; the next stage that runs sends them first")


def _held(path: Path) -> bool:
    try:
        with open(path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return True
    except BlockingIOError:
        return True
    return False
