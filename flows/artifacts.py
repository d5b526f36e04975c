"""What a flow run shows besides its log: links to MLflow, the result table, the report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prefect.artifacts import create_link_artifact, create_markdown_artifact, create_table_artifact

from flows.environment import MLFLOW_PORT, ROOT
from rlm_core.evaluation.table import number
from rlm_core.files import read_json
from rlm_core.params import Params
from tasks import tracking


def mlflow_address(params: Params) -> str:
    """Where a browser finds MLflow: the configured server, else the one of `make ui`."""
    uri = tracking.tracking_uri(params)
    return uri.rstrip("/") if uri.startswith("http") else f"http://127.0.0.1:{MLFLOW_PORT}"


def run_link(params: Params, tracker: tracking.Tracker) -> str:
    """The page of an MLflow run."""
    return f"{mlflow_address(params)}/#/experiments/{tracker.experiment_id}/runs/{tracker.run_id}"


def link_mlflow(params: Params, tracker: tracking.Tracker) -> None:
    """Links to the run in MLflow and to the page of its rollout trees; `make ui` serves both."""
    create_link_artifact(
        key="mlflow-run",
        link=run_link(params, tracker),
        link_text="MLflow run of this flow",
        description="Params, metrics and models, stage by stage.",
    )
    create_link_artifact(
        key="rollouts",
        link=f"{mlflow_address(params)}/#/experiments/{tracker.experiment_id}/traces",
        link_text="Rollout trees",
        description="Every logged rollout as a trace: root, turns, children, with the judge's feedback.",
    )


def publish_results(tracker: tracking.Tracker, *, root: Path = ROOT) -> None:
    """The result table and the report as artifacts, the figures as metrics of the flow's MLflow run."""
    path = root / "reports" / "evaluation.json"
    if not path.exists():
        return
    evaluation = read_json(path)
    rows = [{"arm": arm, **headline(figures)} for arm, figures in evaluation["arms"].items()]
    about = f"Judge: {evaluation['judge']}, n = {evaluation['n']}"
    create_table_artifact(key="results", table=rows, description=about)
    report = root / "reports" / "report.html"
    if report.exists():
        create_markdown_artifact(key="report", markdown=report_text(rows, about, report))
    tracker.log_metrics({f"{arm}.{k}": v for arm, row in evaluation["arms"].items() for k, v in _numbers(row).items()})


def report_text(rows: list[dict[str, str]], about: str, report: Path) -> str:
    """The table as markdown, and where the whole report lies.

    A browser opens no file from a page of a server, so the address is shown as text too.
    """
    names = list(rows[0]) if rows else ["arm"]
    table = [f"| {' | '.join(names)} |", f"|{' --- |' * len(names)}"]
    table += [f"| {' | '.join(row[name] for name in names)} |" for row in rows]
    place = f"Report: `{report}` ([open]({report.as_uri()})); also in MLflow, under the artifacts of stage `report`."
    return "\n".join([about, "", *table, "", place])


def headline(figures: dict[str, Any]) -> dict[str, str]:
    """One arm's figures as a person reads them; `-` for what there is not, as in an arm that no judge could score."""
    interval = figures["judge_ci95"]
    return {
        "judge": number(figures["judge_mean"])
        + (f" [{number(interval[0])}, {number(interval[1])}]" if interval else ""),
        "F1": number(figures["f1_mean"]),
        "format": number(figures["format_success"], 2),
        "tokens": number(figures["tokens_mean"], 0),
        "seconds": number(figures["seconds_mean"], 1),
        "n": str(figures["n"]),
    }


def _numbers(figures: dict[str, Any]) -> dict[str, float]:
    return {k: float(v) for k, v in figures.items() if isinstance(v, int | float) and not isinstance(v, bool)}
