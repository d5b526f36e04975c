"""What a training run keeps on disk: whole or absent, taken up after a kill at any moment, never trained from when broken.

step-000012/       learner.pt, state.json and, with a roll-out one step ahead, batch.json: the last two are kept
validation.json    every evaluation so far, written as each ends: none is paid for twice
best-000010/       the weights of the best evaluation
"""

from __future__ import annotations

import json
import logging
import os
import pickle
import shutil
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlm_core.files import read_json, write_json
from rlm_core.grpo.learner import Learner

log = logging.getLogger("rlm.grpo")

KEPT = 2
_BROKEN = (OSError, ValueError, KeyError, TypeError, EOFError, RuntimeError, pickle.PickleError, zipfile.BadZipFile)
"""What reading a damaged file raises."""
VALIDATION = "validation.json"


class CheckpointError(RuntimeError):
    """A checkpoint cannot be written or read; the message says where, why and what to do."""


@dataclass
class TrainingState:
    """Where training stands. `step` steps are finished; `curve` has one row of figures for each."""

    step: int = 0
    position: int = 0
    """Of the draws: how many queries were taken so far, refills included."""
    curve: list[dict[str, float]] = field(default_factory=list)
    validation: list[dict[str, float]] = field(default_factory=list)
    """One row of `val_*` figures for each evaluation."""

    @property
    def best(self) -> Mapping[str, float] | None:
        """The evaluation with the highest validation reward, the earliest of equals; None before there is one."""
        rows = [row for row in self.validation if "val_reward_mean" in row]
        return max(rows, key=lambda row: (row["val_reward_mean"], -row["step"])) if rows else None

    @property
    def best_reward(self) -> float | None:
        return None if self.best is None else self.best["val_reward_mean"]

    @property
    def best_step(self) -> int | None:
        """Updates that the best weights had seen."""
        return None if self.best is None else int(self.best["step"])

    @property
    def evaluations_since_best(self) -> int:
        """Up to `step`: with checkpoints far apart, later ones may have been made before a kill."""
        best = self.best
        return 0 if best is None else sum(best["step"] < row["step"] <= self.step for row in self.validation)

    def was_evaluated(self, step: int) -> bool:
        return any(row["step"] == step for row in self.validation)


def best_folder(folder: Path, step: int) -> Path:
    return folder / f"best-{step:06d}"


def save_checkpoint(
    folder: Path,
    learner: Learner,
    state: TrainingState,
    extra: Mapping[str, Any],
    batch: Mapping[str, Any] | None = None,
) -> None:
    """Write `folder/step-N` under another name and rename it; then remove all but the last two.

    `batch`: what was rolled out ahead. Raises `CheckpointError` when the disk does not take it; what was there stays.
    """
    target = folder / f"step-{state.step:06d}"
    work = folder / f".{target.name}.part"
    shutil.rmtree(work, ignore_errors=True)
    try:
        work.mkdir(parents=True)
        learner.save(work / "learner.pt")
        if batch is not None:
            write_json(work / "batch.json", batch)
        row = {"step": state.step, "position": state.position, "curve": state.curve, "extra": dict(extra)}
        (work / "state.json").write_text(json.dumps(row), encoding="utf-8")
        for file in work.iterdir():
            with open(file, "rb") as handle:
                os.fsync(handle.fileno())
    except (OSError, RuntimeError) as error:  # torch tells a full disk by a RuntimeError
        shutil.rmtree(work, ignore_errors=True)
        free = shutil.disk_usage(folder).free // 2**20
        raise CheckpointError(
            f"{target}: cannot be written ({error}); {free} MiB are free there. Make room and run again: "
            f"training goes on after step {_last_step(folder)}"
        ) from error
    shutil.rmtree(target, ignore_errors=True)
    work.rename(target)
    for old in checkpoints(folder)[:-KEPT]:
        shutil.rmtree(old)


def checkpoints(folder: Path) -> list[Path]:
    """Finished checkpoints, oldest first."""
    return sorted(folder.glob("step-*"))


def load_checkpoint(folder: Path, learner: Learner) -> tuple[TrainingState, Mapping[str, Any] | None]:
    """The state of the newest sound checkpoint, with what was rolled out ahead; a state of 0 steps when there is none.

    A broken checkpoint is told and passed over for the one before. Raises `CheckpointError` when all are broken.
    """
    state, batch = TrainingState(), None
    found = checkpoints(folder)
    for path in reversed(found):
        try:
            state, batch = _read(path, learner)
            break
        except _BROKEN as error:
            log.error("checkpoint %s is broken and is not trained from: %s", path, error)
    else:
        if found:
            raise CheckpointError(
                f"{folder}: all {len(found)} checkpoints are broken (the log says how); is the disk sound? "
                "Remove the folder to begin anew"
            )
    if (folder / VALIDATION).exists():
        state.validation = read_json(folder / VALIDATION)
    return state, batch


def _read(path: Path, learner: Learner) -> tuple[TrainingState, Mapping[str, Any] | None]:
    row = json.loads((path / "state.json").read_text(encoding="utf-8"))
    state = TrainingState(row["step"], row["position"], row["curve"])
    batch = read_json(path / "batch.json") if (path / "batch.json").exists() else None
    with zipfile.ZipFile(path / "learner.pt") as archive:
        if damaged := archive.testzip():
            raise ValueError(f"learner.pt: {damaged} does not have its checksum")
    learner.load(path / "learner.pt")
    return state, batch


def save_validation(folder: Path, state: TrainingState) -> None:
    """Keep the evaluations so far; then remove the weights of all but the best one."""
    write_json(folder / VALIDATION, state.validation)
    for old in folder.glob("best-*"):
        if state.best_step is None or old != best_folder(folder, state.best_step):
            shutil.rmtree(old)


def _last_step(folder: Path) -> int:
    return max((int(path.name.removeprefix("step-")) for path in checkpoints(folder)), default=0)
