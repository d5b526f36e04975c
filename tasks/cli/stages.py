"""What DVC knows of the pipeline: its stages in order, what each makes, and why one is stale."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tasks.common import StageError


@dataclass(frozen=True, slots=True)
class StageState:
    name: str
    outs: tuple[str, ...]
    reasons: tuple[str, ...]
    """Why `dvc repro` would run it; empty when it is up to date."""
    after: tuple[str, ...] = ()
    """Stale stages before it, whose new outputs may make it run too."""
    made: bool = True
    """Whether it ever ran to its end here."""


def read_stages(root: Path = Path()) -> list[StageState]:
    """The stages of dvc.yaml in order, with what `dvc status` says of each. Raises `StageError`."""
    file = root / "dvc.yaml"
    if not file.exists():
        raise StageError(f"{file.resolve()} is not there; go to the project's folder, or make one: rlm-forge init DIR")
    stages = yaml.safe_load(file.read_text(encoding="utf-8"))["stages"]
    lock = root / "dvc.lock"
    made = (yaml.safe_load(lock.read_text(encoding="utf-8")) or {}).get("stages", {}) if lock.exists() else {}
    return combine(stages, dvc_status(root), set(made))


def dvc_status(root: Path = Path()) -> dict[str, list[Any]]:
    """`dvc status --json`: stage -> what changed. Raises `StageError` while another DVC process holds the repository."""
    environment = {**os.environ, "DVC_NO_ANALYTICS": "1"}
    command = [sys.executable, "-m", "dvc", "status", "--json", "--no-updates"]
    result = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    if result.returncode:
        told = (result.stderr.strip().splitlines() or ["it said nothing"])[0].removeprefix("ERROR: ")
        raise StageError(f"`dvc status` failed: {told} (while a stage runs, wait for its end)")
    return dict(json.loads(result.stdout or "{}"))


def combine(
    stages: Mapping[str, Mapping[str, Any]], changed: Mapping[str, Sequence[Any]], made: set[str]
) -> list[StageState]:
    """`stages`: of dvc.yaml; `changed`: of `dvc status --json`; `made`: names in dvc.lock."""
    outs = {name: tuple(_path(out) for out in entry.get("outs", ())) for name, entry in stages.items()}
    maker = {out: name for name, paths in outs.items() for out in paths}
    states: dict[str, StageState] = {}
    for name, entry in stages.items():
        needs = {maker[found] for dep in entry.get("deps", ()) if (found := _maker_of(_path(dep), maker))}
        waits = tuple(n for n in stages if n in needs and n in states and (states[n].reasons or states[n].after))
        reasons = tuple(_reasons(changed.get(name, ())))
        states[name] = StageState(name, outs[name], reasons, waits, made=name in made)
    return list(states.values())


def _maker_of(dep: str, maker: Mapping[str, str]) -> str | None:
    """The out that is this dependency or the folder that it lies in."""
    return next((out for out in maker if dep == out or dep.startswith(f"{out}/")), None)


def _path(entry: Any) -> str:
    """Of an entry of `deps` or `outs`: a path, or a path with options."""
    return next(iter(entry)) if isinstance(entry, dict) else str(entry)


def _reasons(changes: Sequence[Any]) -> list[str]:
    reasons = []
    for change in changes:
        if isinstance(change, str):
            reasons.append(change)
            continue
        for paths in change.values():
            for path, what in paths.items():
                if isinstance(what, dict):  # a params file: {key: "modified"}
                    reasons += [f"{key} {said}" for key, said in what.items()]
                else:
                    reasons.append(f"{path} {what}")
    return reasons
