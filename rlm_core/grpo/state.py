"""Checkpoints of a training run: whole or absent, the last two kept, taken up after a kill at any moment."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rlm_core.grpo.learner import Learner

KEPT = 2


@dataclass
class TrainingState:
    """Where training stands. `step` steps are finished; `curve` has one row of figures for each."""

    step: int = 0
    curve: list[dict[str, float]] = field(default_factory=list)
    validation: list[dict[str, float]] = field(default_factory=list)
    """One row of `val_*` figures for each evaluation."""
    best_reward: float | None = None
    """Highest validation reward so far; None before the first evaluation."""
    best_step: int | None = None
    """Steps that the weights of `best/` had seen."""


def save_checkpoint(folder: Path, learner: Learner, state: TrainingState, extra: Mapping[str, Any]) -> None:
    """Write `folder/step-N` under another name and rename it; then remove all but the last two."""
    target = folder / f"step-{state.step:06d}"
    work = folder / f".{target.name}.part"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    learner.save(work / "learner.pt")
    (work / "state.json").write_text(json.dumps({**asdict(state), "extra": dict(extra)}), encoding="utf-8")
    for file in work.iterdir():
        with open(file, "rb") as handle:
            os.fsync(handle.fileno())
    shutil.rmtree(target, ignore_errors=True)
    work.rename(target)
    for old in checkpoints(folder)[:-KEPT]:
        shutil.rmtree(old)


def checkpoints(folder: Path) -> list[Path]:
    """Finished checkpoints, oldest first."""
    return sorted(folder.glob("step-*"))


def load_checkpoint(folder: Path, learner: Learner) -> TrainingState | None:
    """Take up the newest checkpoint of `folder`; None when there is none."""
    found = checkpoints(folder)
    if not found:
        return None
    learner.load(found[-1] / "learner.pt")
    row = json.loads((found[-1] / "state.json").read_text(encoding="utf-8"))
    row.pop("extra")
    return TrainingState(**row)
