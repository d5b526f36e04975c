"""Curves of a training run in MLflow: each point once, however often the stage is killed and taken up again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from rlm_core.files import append_jsonl, read_jsonl
from tasks.common import Stage, log

Kind = Literal["train", "val"]
MARKERS: Mapping[Kind, str] = {"train": "lr", "val": "val_completion_tokens"}
"""A figure that every point of the kind has."""


class Curves:
    """Points of the stage's MLflow run. What it holds already is asked once, at the start.

    A list of them beside the checkpoints stands in while the store cannot be asked; a kill between the telling of a point
    and its line there may then have it told twice.
    """

    def __init__(self, stage: Stage, folder: Path) -> None:
        self._stage = stage
        self._list = folder / f"told-{stage.tracker.run_id}.jsonl"
        self._told = {kind: stage.tracker.steps_of(key) for kind, key in MARKERS.items()}
        if self._list.exists():
            for row in read_jsonl(self._list, allow_cut_tail=True):
                self._told[row["kind"]].add(row["step"])

    def tell(self, kind: Kind, step: int, figures: Mapping[str, float]) -> bool:
        """Log the figures of a step, all or none; False when the run has them already."""
        if step in self._told[kind]:
            return False
        self._stage.log_metrics(figures, step=step)
        self._told[kind].add(step)
        append_jsonl(self._list, {"kind": kind, "step": step})
        return True

    def catch_up(self, kind: Kind, rows: Sequence[Mapping[str, float]]) -> None:
        """Tell what a kill kept from being told: rows with a `step` and its figures."""
        told = [self.tell(kind, int(row["step"]), {k: v for k, v in row.items() if k != "step"}) for row in rows]
        if any(told):
            log.info(
                "%s: %d points of the %s curves were saved and not logged before", self._stage.name, sum(told), kind
            )
