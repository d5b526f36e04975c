"""What every stage shares: params, logging, an MLflow run of its own under the pipeline's, and its figures.

A stage module defines `run(stage: Stage)` and ends with `if __name__ == "__main__": stage_main("teach", run)`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlm_core.params import Params, ParamsError, load_params
from rlm_core.printable import printable
from rlm_core.processes import die_with_parent
from tasks import tracking
from tasks.device import hold_devices
from tasks.faults import fault_of

log = logging.getLogger("rlm.stage")

CACHE = Path(".cache")
"""Finished work that a resume takes up again; outside DVC's outs, which are deleted before a stage runs."""


@dataclass
class Stage:
    """One run of one stage."""

    name: str
    params: Params
    tracker: tracking.Tracker
    metrics: dict[str, float] = field(default_factory=dict)

    @property
    def cache(self) -> Path:
        """This stage's folder for resumable state."""
        path = CACHE / self.name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Send figures to MLflow; those without a step are also summed up in the stage's last log line."""
        self.tracker.log_metrics(metrics, step=step)
        if step is None:
            self.metrics.update(metrics)

    def log_artifact(self, path: Path | str) -> None:
        """Attach a file or a folder to the stage's MLflow run."""
        self.tracker.log_artifact(Path(path))


def stage_main(name: str, run: Callable[[Stage], None]) -> None:
    """Entry point of `python -m tasks.NAME`. Waits for the device first if the stage fills one.

    Exit 0; 2 with one clear message for what a person can mend; 75 with one where another try may do (`outside_reason`);
    130 when interrupted; else a traceback.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(_Shown("%(asctime)s %(levelname).1s %(message)s", datefmt="%H:%M:%S"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    die_with_parent()  # DVC's death is the stage's: a killed flow leaves no orphan that holds a GPU
    for noisy in ("httpx", "httpcore", "alembic", "urllib3", "pdfminer", "RapidOCR"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    try:
        with hold_devices(name, on_wait=log.info), open_stage(name) as stage:
            run(stage)
    except (ParamsError, StageError) as error:
        log.error("%s: %s", name, error)
        raise SystemExit(TEMPORARY if outside_reason(error) else 2) from None
    except KeyboardInterrupt:
        log.error("%s: interrupted; what is finished is kept: run again to go on", name)
        raise SystemExit(130) from None
    except Exception as error:
        if (fault := fault_of(error)) is None:
            raise
        log.error("%s: %s", name, fault)
        raise SystemExit(2) from None


class _Shown(logging.Formatter):
    """Names and texts of documents in a line are shown, never obeyed by the terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


class StageError(RuntimeError):
    """A stage cannot go on for a reason that a person can mend; the message says what, where and what to do."""


class OutsideError(StageError):
    """A stage cannot go on for now: an endpoint or a download failed after all its own retries."""


TEMPORARY = 75
"""Exit code of a stage that may do better in a minute (EX_TEMPFAIL of sysexits.h); flows retry these only."""


_PASSING = {"PolicyError", "ChatSilent", "EngineSilent"}
"""By name, so that no stage depends on the code of another's: a server that gave no usable answer after all tries.
Subclasses of PolicyError are refusals and faults that another try will not change."""


def outside_reason(error: BaseException | None) -> bool:
    """Whether an error, or what caused it, is a broken connection or an endpoint that gave up answering."""
    if error is None:
        return False
    passing = isinstance(error, OutsideError | ConnectionError | TimeoutError) or type(error).__name__ in _PASSING
    return passing or outside_reason(error.__cause__)


def failed_trees(message: str, failure: str) -> StageError:
    """That trees failed, the first with `failure`, a line of `rlm_core.rollouts.failures`: `OutsideError` where that is an
    endpoint that gave no usable answer."""
    outside = any(f": {name}: " in failure for name in _PASSING)
    return (OutsideError if outside else StageError)(f"{message}: {failure}")


@contextlib.contextmanager
def open_stage(name: str, params: Params | None = None) -> Iterator[Stage]:
    """Load params, open the stage's MLflow run, and log seconds and peak memory at the end, also on failure."""
    params = params or load_params()
    start = time.monotonic()
    with tracking.stage_run(name, params) as tracker:
        stage = Stage(name, params, tracker)
        try:
            yield stage
        finally:
            seconds = time.monotonic() - start
            stage.log_metrics({"stage_seconds": seconds, "peak_memory_mb": peak_memory_mb()})
            figures = ", ".join(f"{k} {v:.4g}" for k, v in stage.metrics.items())
            log.info("%s: ended; %s", name, figures)


def peak_memory_mb() -> float:
    """Largest resident set of this process or of one waited-for child, in MiB."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return max(resource.getrusage(kind).ru_maxrss for kind in kinds) / 1024


def worker_count(workers: int) -> int:
    """0 means the cores this process may use."""
    return workers or len(os.sched_getaffinity(0))


def require(path: Path, made_by: str) -> Path:
    """`path`, or a `StageError` that names the stage which makes it."""
    if not path.exists():
        raise StageError(f"{path} is missing; stage '{made_by}' makes it: dvc repro {made_by}")
    return path


def dump(params: Any) -> dict[str, Any]:
    """A params section as plain data, for provenance and cache keys."""
    return dict(params.model_dump(mode="json"))
