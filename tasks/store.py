"""What records do to an MLflow store. Each is data, so that it can wait in a file while the store is down (tasks.outbox).

Runs are named by tokens that the writer makes up; the store's own id of a run is kept in `TOKEN.run` once it has one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.outbox import Record, Refused

if TYPE_CHECKING:
    from mlflow import MlflowClient

REFUSALS = {"INVALID_PARAMETER_VALUE", "RESOURCE_DOES_NOT_EXIST", "RESOURCE_ALREADY_EXISTS", "BAD_REQUEST"}
"""Error codes of MLflow that another try will not change."""
TOKEN_TAG = "rlm.token"


class Store:
    """Calling it with a record carries it out; raises `Refused` for one that is hopeless, else what MLflow raised."""

    def __init__(self, uri: str, experiment: str, folder: Path, artifacts: Path) -> None:
        # The outbox tries again by itself, and a trace that was not kept has to be an error.
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")
        os.environ.setdefault("MLFLOW_ENABLE_ASYNC_TRACE_LOGGING", "false")
        self.uri, self.experiment, self.folder = uri, experiment, folder
        self._artifacts = artifacts
        self._client: MlflowClient | None = None
        self._experiment_id = ""

    @property
    def client(self) -> MlflowClient:
        if self._client is None:
            import mlflow
            from mlflow import MlflowClient

            mlflow.set_tracking_uri(self.uri)
            self._client = MlflowClient(self.uri)
        return self._client

    @property
    def experiment_id(self) -> str:
        """Made if absent."""
        if not self._experiment_id:
            found = self.client.get_experiment_by_name(self.experiment)
            if found is None:
                location = self._artifacts.as_uri() if self.uri.startswith("sqlite") else None
                self._experiment_id = self.client.create_experiment(self.experiment, artifact_location=location)
            else:
                self._experiment_id = found.experiment_id
        return self._experiment_id

    def known(self, token: str) -> str | None:
        """MLflow's id of the run with this token; an id is its own. None while the store has not made it."""
        if not token.startswith("pending-"):
            return token
        file = self.folder / f"{token}.run"
        return file.read_text() if file.exists() else None

    def __call__(self, record: Record) -> None:
        from mlflow.exceptions import MlflowException

        try:
            _OPERATIONS[record["op"]](self, record)
        except MlflowException as error:
            if error.error_code in REFUSALS:
                raise Refused(str(error)) from error
            raise
        except FileNotFoundError as error:
            raise Refused(f"the file is gone: {error}") from error

    def run_of(self, record: Record) -> str:
        return self.resolve(record["run"])

    def resolve(self, token: str) -> str:
        run_id = self.known(token)
        if run_id is None:
            raise LookupError(f"run {token} is not made yet")
        return run_id


def _create(store: Store, record: Record) -> None:
    """Once: a run whose id a kill kept from being written down is found by its token."""
    token = record["run"]
    if store.known(token):
        return
    tags = dict(record["tags"])
    if parent := tags.get("mlflow.parentRunId"):
        tags["mlflow.parentRunId"] = store.resolve(parent)
    found = store.client.search_runs([store.experiment_id], filter_string=f"tags.`{TOKEN_TAG}` = '{token}'")
    run_id = (
        found[0].info.run_id
        if found
        else store.client.create_run(
            store.experiment_id, start_time=record["at"], tags={**tags, TOKEN_TAG: token}
        ).info.run_id
    )
    part = store.folder / f"{token}.part"
    part.write_text(run_id)
    part.rename(store.folder / f"{token}.run")


def _metrics(store: Store, record: Record) -> None:
    from mlflow.entities import Metric

    rows = [Metric(key, value, record["at"], record["step"]) for key, value in record["metrics"].items()]
    store.client.log_batch(store.run_of(record), metrics=rows, synchronous=True)


def _params(store: Store, record: Record) -> None:
    from mlflow.entities import Param

    rows = [Param(key, value) for key, value in record["params"].items()]
    store.client.log_batch(store.run_of(record), params=rows, synchronous=True)


def _tags(store: Store, record: Record) -> None:
    for key, value in record["tags"].items():
        store.client.set_tag(store.run_of(record), key, value)


def _status(store: Store, record: Record) -> None:
    run_id = store.run_of(record)
    if record["status"] == "RUNNING":
        store.client.update_run(run_id, status="RUNNING")
    else:
        store.client.set_terminated(run_id, record["status"], end_time=record["at"])


def _artifact(store: Store, record: Record) -> None:
    path = Path(record["path"])
    if path.is_dir():
        store.client.log_artifacts(store.run_of(record), str(path), artifact_path=record["name"])
    else:
        store.client.log_artifact(store.run_of(record), str(path), artifact_path=None)


def _table(store: Store, record: Record) -> None:
    store.client.log_table(store.run_of(record), record["columns"], artifact_file=record["file"])


def _datasets(store: Store, record: Record) -> None:
    from mlflow.entities import Dataset, DatasetInput, InputTag

    rows = [
        DatasetInput(
            Dataset(row["name"], row["digest"], source_type="local", source=row["path"], profile=row["profile"]),
            [InputTag("mlflow.data.context", row["context"])],
        )
        for row in record["datasets"]
    ]
    store.client.log_inputs(store.run_of(record), datasets=rows)


def _traces(store: Store, record: Record) -> None:
    from tasks.traces import send_traces

    send_traces(store.client, store.experiment_id, store.run_of(record), record)


def _model(store: Store, record: Record) -> None:
    from tasks.registry import send_model

    send_model(store.client, store.experiment_id, store.run_of(record), record)


def _model_metrics(store: Store, record: Record) -> None:
    from tasks.registry import send_model_metrics

    send_model_metrics(store.client, store.experiment_id, store.run_of(record), record)


_OPERATIONS: Mapping[str, Callable[[Store, Record], Any]] = {
    "create": _create,
    "metrics": _metrics,
    "params": _params,
    "tags": _tags,
    "status": _status,
    "artifact": _artifact,
    "table": _table,
    "datasets": _datasets,
    "traces": _traces,
    "model": _model,
    "model_metrics": _model_metrics,
}
