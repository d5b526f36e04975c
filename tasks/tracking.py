"""MLflow: one experiment, one run a stage under a parent run of the pipeline, joined to git, DVC and Prefect by tags.

Variables read (set by the flow, absent in a plain `dvc repro`): `RLM_PARENT_RUN_ID`, `RLM_FLOW_RUN_ID`, `RLM_FLOW_RUN_URL`.
`MLFLOW_RUN_ID` is never set: MLflow would let the child overwrite the parent.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlm_core.files import content_key, sha256_file
from rlm_core.params import Params
from tasks.outbox import Outbox, append, last_record, left_behind, now_ms
from tasks.store import REFUSALS, Store
from tasks.system_metrics import system_metrics

if TYPE_CHECKING:
    from mlflow import MlflowClient

log = logging.getLogger("rlm.tracking")


def tracking_uri(params: Params, root: Path | None = None) -> str:
    """The configured server, else SQLite by absolute path (a relative one would vanish with a DVC experiment's folder)."""
    if params.mlflow.tracking_uri:
        return params.mlflow.tracking_uri
    if uri := os.environ.get("RLM_TRACKING_URI"):
        return uri
    return f"sqlite:///{(root or Path.cwd()).resolve() / 'mlflow.db'}"


OUTBOXES = Path(".cache/mlflow")
ANSWER_SECONDS = 30.0
"""Within which a store answers at the start of a run; a new SQLite file takes seconds."""
CLOSE_SECONDS = 120.0
"""How long the end of a run waits for what is still unsent."""


class Tracker:
    """Writes to one MLflow run. No call waits for the store or fails with it: records go through an outbox."""

    def __init__(self, outbox: Outbox, store: Store, run: str) -> None:
        self._outbox, self._store, self._run = outbox, store, run

    @property
    def client(self) -> MlflowClient:
        """For reading: what was logged before is there, unless the store does not take it."""
        self.flush()
        return self._store.client

    @property
    def run_id(self) -> str:
        """MLflow's id of the run; a token that stands for it while the store has not been reached."""
        return self._store.known(self._run) or self._run

    @property
    def experiment_id(self) -> str:
        return self._store.experiment_id

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        self._add("metrics", metrics={key: float(value) for key, value in metrics.items()}, step=step or 0)

    def log_params(self, params: Mapping[str, Any]) -> None:
        self._add("params", params={key: str(value)[:6000] for key, value in params.items()})

    def set_tags(self, tags: Mapping[str, str]) -> None:
        self._add("tags", tags=dict(tags))

    def log_artifact(self, path: Path) -> None:
        """A file or a folder, as it is now: a copy is kept until it is sent."""
        copy = self._store.folder / "files" / uuid.uuid4().hex / path.name
        copy.parent.mkdir(parents=True)
        if path.is_dir():
            shutil.copytree(path, copy, copy_function=_link)
        else:
            _link(path, copy)
        self._add("artifact", path=str(copy.resolve()), name=path.name)

    def log_table(self, columns: Mapping[str, list[Any]], file: str) -> None:
        """A table that MLflow's UI compares between runs."""
        self._add("table", columns=dict(columns), file=file)

    def log_datasets(self, context: str, *paths: Path) -> None:
        """What the run read: each file with its digest and rows. `context`: training, validation or evaluation."""
        rows = [{**_dataset(path), "context": context} for path in paths if path.exists()]
        self._add("datasets", datasets=rows)

    def log_model(self, folder: Path, name: str, metrics: Mapping[str, float], *, score: float | None = None) -> None:
        """A Hugging Face folder as a logged model and a new version of the registered model; `score`: for alias `best`."""
        self._add(
            "model",
            path=str(folder.resolve()),
            name=name,
            metrics=dict(metrics),
            weights=weights_digest(folder),
            score=score,
            registered=self._store.experiment,
        )

    def log_model_metrics(self, folder: Path, metrics: Mapping[str, float]) -> None:
        """Figures that a model which was logged before earned in this run."""
        self._add("model_metrics", weights=weights_digest(folder), metrics=dict(metrics))

    def log_traces(self, **record: Any) -> None:
        """Rollout trees; see `tasks.traces`."""
        self._add("traces", **record)

    def adopt(self, run: str) -> None:
        """Go on in the run of an earlier attempt, which runs again; this one is tagged `continued_in`."""
        self.set_tags({"continued_in": run})
        self._run = run
        self._add("status", status="RUNNING")

    def end(self, status: str) -> None:
        self._add("status", status=status)

    def exists(self, run: str) -> bool:
        """Whether the store has this run, undeleted; taken for true while it cannot be asked."""
        from mlflow.exceptions import MlflowException

        run_id = self._store.known(run)
        if run_id is None:
            return True
        try:
            return bool(self._store.client.get_run(run_id).info.lifecycle_stage == "active")
        except MlflowException as error:
            return bool(error.error_code not in REFUSALS)

    def steps_of(self, metric: str) -> set[int]:
        """Steps at which the run has a value; none while the store cannot be asked."""
        from mlflow.exceptions import MlflowException

        if self._store.known(self._run) is None:
            return set()
        try:
            return {point.step for point in self.client.get_metric_history(self.run_id, metric)}
        except MlflowException as error:
            log.warning("the points of %s that MLflow has could not be asked for: %s", metric, error)
            return set()

    def flush(self, seconds: float = 60.0) -> bool:
        """Wait until the store has all that was logged; False when that takes longer."""
        return self._outbox.flush(seconds)

    def _add(self, op: str, **values: Any) -> None:
        self._outbox.add({"op": op, "run": self._run, "at": now_ms(), **values})


def weights_digest(folder: Path) -> str:
    """Names the weights of a model folder."""
    return content_key(*(sha256_file(path) for path in sorted(folder.glob("*.safetensors"))))


def _link(source: str | Path, target: str | Path) -> str:
    """Outputs are replaced, never written over, so a hard link keeps what they were; a copy where none can be made."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    return str(target)


def _dataset(path: Path) -> dict[str, str]:
    rows: dict[str, int] = {}
    if path.suffix == ".jsonl":
        with open(path, "rb") as file:
            rows["num_rows"] = sum(1 for _ in file)
    elif path.suffix == ".parquet":
        import pyarrow.parquet as parquet

        rows["num_rows"] = parquet.read_metadata(path).num_rows
    name = "/".join(path.parts[-2:])
    return {"name": name, "digest": sha256_file(path)[:16], "path": str(path), "profile": json.dumps(rows)}


@contextlib.contextmanager
def stage_run(name: str, params: Params) -> Iterator[Tracker]:
    """The MLflow run of one stage, nested under the pipeline's when there is one, with the machine's load as curves."""
    tags = {"stage": name, **_join_tags()}
    if parent := os.environ.get("RLM_PARENT_RUN_ID"):
        tags["mlflow.parentRunId"] = parent
    with (
        open_run(name, params, tags=tags) as tracker,
        system_metrics(tracker.log_metrics, params.mlflow.system_metrics_seconds),
    ):
        yield tracker


@contextlib.contextmanager
def open_run(name: str, params: Params, *, tags: Mapping[str, str]) -> Iterator[Tracker]:
    """A run that is RUNNING inside the block, then FINISHED, FAILED or KILLED. All params are logged to it.

    What earlier runs left unsent goes first; a run among them whose process was killed ends as KILLED.
    """
    uri = tracking_uri(params)
    folder = (OUTBOXES / content_key(uri, params.mlflow.experiment)[:12]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    first = left_behind(folder)
    for path in first:
        _end_killed(path)
    token = f"pending-{uuid.uuid4().hex}"
    store = Store(uri, params.mlflow.experiment, folder, Path.cwd().resolve() / "mlruns")
    outbox = Outbox(folder / f"{token}.jsonl", store, first=first)
    tracker = Tracker(outbox, store, token)
    outbox.add({"op": "create", "run": token, "at": now_ms(), "tags": {"mlflow.runName": name, **tags}})
    tracker.log_params(flatten(params.model_dump(mode="json")))
    if not tracker.flush(ANSWER_SECONDS):
        log.warning("MLflow at %s does not answer; the work goes on, and what is logged is sent when it does", uri)
    status = "FAILED"
    try:
        yield tracker
        status = "FINISHED"
    except KeyboardInterrupt:
        status = "KILLED"
        raise
    finally:
        outbox.add({"op": "status", "run": token, "at": now_ms(), "status": status})
        outbox.close(CLOSE_SECONDS)


def _end_killed(path: Path) -> None:
    """An outbox ends with the end of its own run, unless its process was killed."""
    last = last_record(path)
    if last is not None and (last["op"], last["run"]) != ("status", path.stem):
        append(path, {"op": "status", "run": path.stem, "at": last["at"], "status": "KILLED"})


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
