"""The running stage's progress as a Prefect artifact, read from the lines that `rlm_core.progress` writes."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from uuid import UUID

from prefect.artifacts import create_progress_artifact, update_progress_artifact

_LINE = re.compile(
    r"^(?:[\d:]{8} \w )?(?P<label>[\w.-][\w .-]*): (?P<done>\d+)/(?P<total>\d+) (?P<rest>\S.*, \S+/s.*)$"
)


@dataclass(frozen=True, slots=True)
class Step:
    """How far a stage is; `text` is its own line, with rate and time left."""

    percent: float
    text: str


def read_step(line: str) -> Step | None:
    """The progress that a log line tells; None for other lines.

    >>> read_step("12:00:01 I teach: 12/96 trees, 1.5/s, about 0:56 left")
    Step(percent=12.5, text='teach: 12/96 trees, 1.5/s, about 0:56 left')
    """
    match = _LINE.match(line)
    if match is None or not int(match["total"]):
        return None
    percent = min(100.0, 100 * int(match["done"]) / int(match["total"]))
    return Step(percent, f"{match['label']}: {match['done']}/{match['total']} {match['rest']}")


class ProgressArtifact:
    """One artifact `progress-STAGE` of the task run, made with the first step and updated at most every two seconds."""

    def __init__(self, stage: str, *, every_seconds: float = 2.0) -> None:
        self._stage = stage
        self._every = every_seconds
        self._id: UUID | None = None
        self._last = 0.0

    def line(self, line: str) -> None:
        step = read_step(line)
        if step is None or (step.percent < 100 and time.monotonic() - self._last < self._every):
            return
        self._last = time.monotonic()
        if self._id is None:
            self._id = create_progress_artifact(step.percent, key=f"progress-{self._stage}", description=step.text)
        else:
            update_progress_artifact(self._id, step.percent, description=step.text)
