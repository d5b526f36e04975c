"""What every flow shares: stages run one after the other as tasks, joined to one MLflow run."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows.environment import ROOT, use_local_prefect

use_local_prefect()

from prefect import get_run_logger, runtime, task  # noqa: E402
from prefect.client.schemas.objects import State, TaskRun  # noqa: E402
from prefect.states import Completed  # noqa: E402
from prefect.tasks import Task  # noqa: E402

from flows.artifacts import link_mlflow, publish_results  # noqa: E402
from flows.dvc import Outcome, StageFailed, lock_hash, repro, stage_names, stages_of_pool  # noqa: E402
from flows.forms import Where  # noqa: E402
from flows.progress import ProgressArtifact  # noqa: E402
from flows.workspace import exclusive, write_params  # noqa: E402
from rlm_core.params import Params  # noqa: E402
from tasks import tracking  # noqa: E402

_LEVEL = re.compile(r"^\d\d:\d\d:\d\d ([DIWEC]) ")
_LEVELS = {"D": logging.DEBUG, "W": logging.WARNING, "E": logging.ERROR, "C": logging.CRITICAL}


def is_passing(_task: Task[Any, Any], _run: TaskRun, state: State[Any]) -> bool:
    """Only a failure whose reason lies outside is worth another try; a mistake in params is not."""
    error = state.result(raise_on_failure=False)
    return isinstance(error, StageFailed) and error.passing


@task(retries=2, retry_delay_seconds=[30, 120], retry_condition_fn=is_passing)
def run_stage(stage: str, env: dict[str, str], force: bool, root: Path = ROOT) -> State[Any] | None:
    """One stage; its log is this task run's log, and a stage that DVC skipped ends as `Cached` with its lock's hash."""
    logger = get_run_logger()
    progress = ProgressArtifact(stage)

    def on_line(line: str) -> None:
        match = _LEVEL.match(line)
        logger.log(_LEVELS.get(match[1], logging.INFO) if match else logging.INFO, line)
        progress.line(line)

    try:
        outcome = repro(stage, root=root, env=env, force=force, on_line=on_line)
    except StageFailed as error:
        if error.passing:
            logger.warning("stage '%s' failed for a reason outside this machine; it is tried again up to twice", stage)
        raise
    lock = f"dvc.lock {lock_hash(stage, root)}"
    if outcome is Outcome.CACHED:
        return Completed(name="Cached", message=f"nothing that this stage depends on has changed ({lock})")
    logger.info("stage '%s' is done (%s)", stage, lock)
    return None


def stage_range(start: str, end: str, root: Path = ROOT) -> list[str]:
    """The stages from `start` to `end`, both included."""
    names = stage_names(root)
    first, last = names.index(start), names.index(end)
    if first > last:
        raise ValueError(f"stage '{start}' comes after '{end}'; the order is {', '.join(names)}")
    return names[first : last + 1]


@dataclass(frozen=True)
class Work:
    """Stages to run in a folder with these params."""

    stages: Sequence[str]
    params: Params
    force: bool = False
    gpu: Where = "here"
    """`pool`: stages marked `gpu` in dvc.yaml run by deployment on the work pool `gpu`."""
    root: Path = ROOT
    parent_run_id: str | None = None
    """MLflow run to nest this one under."""


def run_stages(name: str, work: Work) -> str:
    """Run them in order under one MLflow run called `name`, in a flow run; returns the MLflow run's id."""
    logger = get_run_logger()
    join = flow_variables()
    tags = {**tracking.flow_tags(join), "flow": name}
    if work.parent_run_id:
        tags["mlflow.parentRunId"] = work.parent_run_id
    with (
        exclusive(work.root, f"flow '{name}'", logger.info),
        tracking.open_run(name, work.params, tags=tags) as tracker,
    ):
        write_params(work.params, work.root / "params.yaml")
        link_mlflow(work.params, tracker)
        env = {**join, "RLM_PARENT_RUN_ID": tracker.run_id, "RLM_TRACKING_URI": tracking.tracking_uri(work.params)}
        for stage in work.stages:
            runner(stage, work)(stage, env)
        publish_results(tracker, root=work.root)
    return tracker.run_id


def runner(stage: str, work: Work) -> Callable[[str, dict[str, str]], object]:
    """Who runs a stage: this process, or a worker of the pool `gpu`."""
    if work.gpu == "pool" and stage in stages_of_pool("gpu", work.root):
        from flows.remote import run_on_pool

        return lambda name, env: run_on_pool(name, env, work.params, force=work.force, root=work.root)
    return lambda name, env: run_stage.with_options(name=name)(name, env, work.force, work.root)


def flow_variables() -> Mapping[str, str]:
    """What joins a stage's MLflow run to this flow run (read by tasks.tracking)."""
    run = runtime.flow_run
    return {"RLM_FLOW_RUN_ID": str(run.id or ""), "RLM_FLOW_RUN_URL": str(run.ui_url or "")}
