"""Models in MLflow: logged with the metrics they earned, and versions of one registered model with aliases.

Aliases: the stage that made it (`sft`, `grpo`), and `best` for the one with the highest score so far; `latest` is MLflow's own.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.outbox import Record

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import LoggedModel

WEIGHTS, SCORE = "weights", "score"
"""Tags: what the weights are, by their hash; the validation reward that `best` goes by."""


def send_model(client: MlflowClient, experiment_id: str, run_id: str, record: Record) -> None:
    """A Hugging Face folder as a logged model of the run and a version of the registered model. Sent twice, it is one."""
    from mlflow.entities import LoggedModelOutput

    folder = Path(record["path"])
    if not folder.is_dir():
        raise FileNotFoundError(folder)
    model = _logged(client, experiment_id, record["weights"], run_id)
    if model is None:
        model = client.create_logged_model(
            experiment_id,
            name=record["name"],
            source_run_id=run_id,
            model_type="causal-lm",
            tags={"folder": str(folder), WEIGHTS: record["weights"]},
        )
    if str(model.status) != "READY":
        client.log_model_artifacts(model.model_id, str(folder))
        client.log_outputs(run_id, [LoggedModelOutput(model.model_id, step=0)])
        client.finalize_logged_model(model.model_id, "READY")
    _log_metrics(client, model.model_id, run_id, record)
    _register(client, model, run_id, record)


def send_model_metrics(client: MlflowClient, experiment_id: str, run_id: str, record: Record) -> None:
    """Figures of a later run for the model with these weights; nothing if it was never logged."""
    model = _logged(client, experiment_id, record["weights"])
    if model is not None:
        _log_metrics(client, model.model_id, run_id, record)


def _logged(client: MlflowClient, experiment_id: str, weights: str, run_id: str | None = None) -> LoggedModel | None:
    found = client.search_logged_models([experiment_id], filter_string=f"tags.{WEIGHTS} = '{weights}'")
    return next((model for model in found if run_id in (None, model.source_run_id)), None)


def _log_metrics(client: MlflowClient, model_id: str, run_id: str, record: Record) -> None:
    from mlflow.entities import Metric

    rows = [
        Metric(key, value, record["at"], 0, model_id=model_id, run_id=run_id)
        for key, value in record["metrics"].items()
    ]
    client.log_batch(run_id, metrics=rows, synchronous=True)


def _register(client: MlflowClient, model: LoggedModel, run_id: str, record: Record) -> None:
    name = record["registered"]
    versions = _versions(client, name)
    source = f"models:/{model.model_id}"
    version = next((v for v in versions if v.source == source), None)
    if version is None:
        version = client.create_model_version(
            name, source=source, run_id=run_id, model_id=model.model_id, tags=_score_tag(record)
        )
    client.set_registered_model_alias(name, record["name"], version.version)
    best = max((float(v.tags[SCORE]) for v in versions if SCORE in v.tags), default=float("-inf"))
    if record["score"] is not None and record["score"] >= best:
        client.set_registered_model_alias(name, "best", version.version)


def _versions(client: MlflowClient, name: str) -> list[Any]:
    """Of the registered model, which is made if absent."""
    from mlflow.exceptions import MlflowException

    try:
        client.create_registered_model(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    return list(client.search_model_versions(f"name = '{name}'"))


def _score_tag(record: Record) -> dict[str, str]:
    return {} if record["score"] is None else {SCORE: repr(float(record["score"]))}
