"""The flow `pipeline`: papers to a judged model, a stage at a time through DVC, joined to one MLflow run."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from flows.environment import MLFLOW_PORT, use_local_prefect

use_local_prefect()

import yaml  # noqa: E402
from prefect import flow, get_run_logger, runtime, task  # noqa: E402
from prefect.artifacts import create_link_artifact, create_markdown_artifact, create_table_artifact  # noqa: E402
from prefect.client.schemas.objects import State  # noqa: E402
from prefect.states import Completed  # noqa: E402

from flows.dvc import Outcome, repro, stage_names  # noqa: E402
from rlm_core.files import read_json, write_text  # noqa: E402
from rlm_core.params import Params, load_params  # noqa: E402
from tasks import tracking  # noqa: E402

StageName = Literal[
    "papers", "parse", "ocr", "groups", "queries", "teach", "distill", "sft", "grpo", "evaluate", "report"
]


@flow(name="pipeline", flow_run_name="{start}-to-{end}")
def pipeline(
    start: StageName = "papers",
    end: StageName = "report",
    force: bool = False,
    params: Params | None = None,
) -> str:
    """Run the stages from `start` to `end`; what has not changed since its last run is skipped. Returns the MLflow run's id.

    Args:
        start: First stage; those before it are taken as they are.
        end: Last stage.
        force: Run the stages also if nothing changed.
        params: Written to params.yaml first; empty uses that file as it is.
    """
    stages = stage_range(start, end)
    if params is not None:
        write_params(params)
    settings = load_params()
    flow_url = str(runtime.flow_run.ui_url or "")
    join = {"RLM_FLOW_RUN_ID": str(runtime.flow_run.id or ""), "RLM_FLOW_RUN_URL": flow_url}
    with tracking.open_run("pipeline", settings, tags=tracking.flow_tags(join)) as tracker:
        link_mlflow(tracker)
        for stage in stages:
            run_stage.with_options(name=stage)(stage, {**join, "RLM_PARENT_RUN_ID": tracker.run_id}, force)
        publish_results(tracker)
    return tracker.run_id


@task
def run_stage(stage: str, env: dict[str, str], force: bool) -> State[Any] | None:
    """One stage; its log is this task run's log, and a stage that DVC skipped ends as `Cached`."""
    logger = get_run_logger()
    outcome = repro(stage, env=env, force=force, on_line=logger.info)
    if outcome is Outcome.CACHED:
        return Completed(name="Cached", message="nothing that this stage depends on has changed")
    return None


def stage_range(start: str, end: str) -> list[str]:
    """The stages from `start` to `end`, both included."""
    names = stage_names()
    first, last = names.index(start), names.index(end)
    if first > last:
        raise ValueError(f"stage '{start}' comes after '{end}'; the order is {', '.join(names)}")
    return names[first : last + 1]


def write_params(params: Params, path: Path = Path("params.yaml")) -> None:
    """Replace params.yaml; git keeps what was there."""
    write_text(path, yaml.safe_dump(params.model_dump(mode="json"), sort_keys=False, allow_unicode=True))


def link_mlflow(tracker: tracking.Tracker) -> None:
    create_link_artifact(
        key="mlflow-run",
        link=f"http://127.0.0.1:{MLFLOW_PORT}/#/experiments/{tracker.experiment_id}/runs/{tracker.run_id}",
        link_text="MLflow run of this pipeline",
        description="Params, metrics, models and rollout traces, stage by stage (`make ui` serves it).",
    )


def publish_results(tracker: tracking.Tracker) -> None:
    """The result table as an artifact of the flow run, and as metrics of the pipeline's MLflow run."""
    path = Path("reports/evaluation.json")
    if not path.exists():
        return
    evaluation = read_json(path)
    rows = [{"arm": arm, **_headline(figures)} for arm, figures in evaluation["arms"].items()]
    create_table_artifact(key="results", table=rows, description=f"Judge: {evaluation['judge']}, n = {evaluation['n']}")
    report = Path("reports/report.html").resolve()
    if report.exists():
        create_markdown_artifact(key="report", markdown=f"Report: `{report}`\n\n[open]({report.as_uri()})")
    tracker.log_metrics({f"{arm}.{k}": v for arm, row in evaluation["arms"].items() for k, v in _numbers(row).items()})


def _headline(figures: dict[str, Any]) -> dict[str, str]:
    low, high = figures["judge_ci95"]
    return {
        "judge": f"{figures['judge_mean']:.3f} [{low:.3f}, {high:.3f}]",
        "F1": f"{figures['f1_mean']:.3f}",
        "format": f"{figures['format_success']:.2f}",
        "tokens": f"{figures['tokens_mean']:.0f}",
        "seconds": f"{figures['seconds_mean']:.1f}",
        "n": str(figures["n"]),
    }


def _numbers(figures: dict[str, Any]) -> dict[str, float]:
    return {k: float(v) for k, v in figures.items() if isinstance(v, int | float) and not isinstance(v, bool)}
