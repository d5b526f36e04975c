"""MLflow: one experiment, one run a stage under a parent run of the pipeline, joined to git, DVC and Prefect by tags.

Variables read (set by the flow, absent in a plain `dvc repro`): `RLM_PARENT_RUN_ID`, `RLM_FLOW_RUN_ID`, `RLM_FLOW_RUN_URL`.
`MLFLOW_RUN_ID` is never set: MLflow would let the child overwrite the parent.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlm_core.params import Params

if TYPE_CHECKING:
    from mlflow import MlflowClient


def tracking_uri(params: Params, root: Path | None = None) -> str:
    """The configured server, else SQLite by absolute path (a relative one would vanish with a DVC experiment's folder)."""
    if params.mlflow.tracking_uri:
        return params.mlflow.tracking_uri
    if uri := os.environ.get("RLM_TRACKING_URI"):
        return uri
    return f"sqlite:///{(root or Path.cwd()).resolve() / 'mlflow.db'}"


@dataclass
class Tracker:
    """Writes to one MLflow run by id; holds no global state of MLflow's."""

    client: MlflowClient
    run_id: str
    experiment_id: str

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        from mlflow.entities import Metric
        from mlflow.utils.time import get_current_time_millis

        now = get_current_time_millis()
        rows = [Metric(key, float(value), now, step or 0) for key, value in metrics.items()]
        self.client.log_batch(self.run_id, metrics=rows, synchronous=True)

    def log_params(self, params: Mapping[str, Any]) -> None:
        from mlflow.entities import Param

        rows = [Param(key, str(value)[:6000]) for key, value in params.items()]
        self.client.log_batch(self.run_id, params=rows, synchronous=True)

    def set_tags(self, tags: Mapping[str, str]) -> None:
        for key, value in tags.items():
            self.client.set_tag(self.run_id, key, value)

    def log_artifact(self, path: Path) -> None:
        if path.is_dir():
            self.client.log_artifacts(self.run_id, str(path), artifact_path=path.name)
        else:
            self.client.log_artifact(self.run_id, str(path))

    def log_model(self, folder: Path, name: str, metrics: Mapping[str, float]) -> str:
        """A Hugging Face folder as a logged model of this run, with the metrics it earned; returns the model's id."""
        from mlflow.entities import LoggedModelOutput, Metric
        from mlflow.utils.time import get_current_time_millis

        model = self.client.create_logged_model(
            self.experiment_id,
            name=name,
            source_run_id=self.run_id,
            model_type="causal-lm",
            tags={"folder": str(folder)},
        )
        self.client.log_model_artifacts(model.model_id, str(folder))
        self.client.finalize_logged_model(model.model_id, "READY")
        self.client.log_outputs(self.run_id, [LoggedModelOutput(model.model_id, step=0)])
        now = get_current_time_millis()
        rows = [
            Metric(key, float(value), now, 0, model_id=model.model_id, run_id=self.run_id)
            for key, value in metrics.items()
        ]
        self.client.log_batch(self.run_id, metrics=rows, synchronous=True)
        return str(model.model_id)


def get_client(params: Params) -> tuple[MlflowClient, str]:
    """A client on the tracking store, and the id of the experiment (made if absent)."""
    import mlflow
    from mlflow import MlflowClient

    uri = tracking_uri(params)
    mlflow.set_tracking_uri(uri)
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name(params.mlflow.experiment)
    if experiment is not None:
        return client, experiment.experiment_id
    location = (Path.cwd() / "mlruns").resolve().as_uri() if uri.startswith("sqlite") else None
    return client, client.create_experiment(params.mlflow.experiment, artifact_location=location)


@contextlib.contextmanager
def stage_run(name: str, params: Params) -> Iterator[Tracker]:
    """The MLflow run of one stage, nested under the pipeline's when there is one."""
    tags = {"stage": name, **_join_tags()}
    if parent := os.environ.get("RLM_PARENT_RUN_ID"):
        tags["mlflow.parentRunId"] = parent
    with open_run(name, params, tags=tags) as tracker:
        yield tracker


@contextlib.contextmanager
def open_run(name: str, params: Params, *, tags: Mapping[str, str]) -> Iterator[Tracker]:
    """A run that is RUNNING inside the block, then FINISHED, FAILED or KILLED. All params are logged to it."""
    client, experiment_id = get_client(params)
    run = client.create_run(experiment_id, tags={"mlflow.runName": name, **tags})
    tracker = Tracker(client, run.info.run_id, experiment_id)
    tracker.log_params(flatten(params.model_dump(mode="json")))
    status = "FAILED"
    try:
        yield tracker
        status = "FINISHED"
    except KeyboardInterrupt:
        status = "KILLED"
        raise
    finally:
        client.set_terminated(run.info.run_id, status)


def flatten(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """`{"sft": {"lr": 1}}` -> `{"sft.lr": 1}`."""
    flat: dict[str, Any] = {}
    for key, value in data.items():
        if isinstance(value, Mapping):
            flat.update(flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _join_tags() -> dict[str, str]:
    """What joins this run to its commit, DVC stage and experiment, and Prefect run."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    tags = {"git_commit": commit.stdout.strip()} if commit.returncode == 0 else {}
    for variable in ("DVC_STAGE", "DVC_EXP_NAME", "DVC_EXP_BASELINE_REV"):
        if value := os.environ.get(variable):
            tags[variable.lower()] = value
    return {**tags, **flow_tags(os.environ)}


def flow_tags(variables: Mapping[str, str]) -> dict[str, str]:
    """The Prefect run as tags, from the variables named at the head of this module."""
    names = {"RLM_FLOW_RUN_ID": "prefect_flow_run_id", "RLM_FLOW_RUN_URL": "prefect_flow_run_url"}
    return {tag: variables[name] for name, tag in names.items() if variables.get(name)}
