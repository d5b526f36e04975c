"""Runs in MLflow: status, models with aliases, datasets, the machine's load, and a real server that goes down."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from mlflow import MlflowClient

from flows.servers import free_port, mlflow_server
from rlm_core.params import MlflowParams, Params
from rlm_core.records import Judgement, Rollout, Turn
from tasks import tracking
from tasks.system_metrics import system_metrics
from tasks.traces import log_rollouts

ROOT = Path(__file__).resolve().parents[2]


def params_of(uri: str) -> Params:
    return Params(mlflow=MlflowParams(tracking_uri=uri, system_metrics_seconds=0))


@pytest.fixture(scope="module")
def params(tmp_path_factory: pytest.TempPathFactory) -> Params:
    return params_of(f"sqlite:///{tmp_path_factory.mktemp('mlflow') / 'mlflow.db'}")


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def model_folder(tmp_path: Path, name: str, weights: bytes) -> Path:
    folder = tmp_path / "models" / name
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(weights)
    return folder


def test_a_failing_stage_marks_its_run_failed(params: Params, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DVC_STAGE", "teach")
    with pytest.raises(RuntimeError, match="broken"), tracking.stage_run("teach", params) as tracker:
        tracker.log_metrics({"loss": 0.5}, step=3)
        raise RuntimeError("broken")
    run = tracker.client.get_run(tracker.run_id)
    assert run.info.status == "FAILED"
    assert run.data.metrics == {"loss": 0.5}
    assert run.data.tags["dvc_stage"] == "teach"
    assert run.data.params["grpo.lr"] == "5e-05"


def test_models_are_versions_with_aliases_and_the_metrics_they_earned(params: Params, tmp_path: Path) -> None:
    scores = {"sft": None, "first": 0.6, "worse": 0.4}
    for name, score in scores.items():
        with tracking.stage_run(name, params) as tracker:
            folder = model_folder(tmp_path, name, name.encode())
            tracker.log_model(folder, name, {"val_loss": 0.25}, score=score)
    with tracking.stage_run("evaluate", params) as tracker:
        tracker.log_model_metrics(tmp_path / "models" / "first", {"judge_mean": 0.7})
    client = tracker.client
    aliases = {name: client.get_model_version_by_alias("rlm-forge", name) for name in [*scores, "best"]}
    assert aliases["best"].version == aliases["first"].version
    newest = max(int(v.version) for v in client.search_model_versions("name = 'rlm-forge'"))
    assert int(aliases["worse"].version) == newest
    model = client.get_logged_model(aliases["first"].source.removeprefix("models:/"))
    assert (model.name, str(model.status)) == ("first", "READY")
    assert {m.key: m.value for m in model.metrics or []} == {"val_loss": 0.25, "judge_mean": 0.7}
    assert [f.path for f in client.list_logged_model_artifacts(model.model_id)] == ["model.safetensors"]
    outputs = client.get_run(model.source_run_id).outputs.model_outputs
    assert [m.model_id for m in outputs] == [model.model_id]


def test_a_model_that_is_sent_twice_is_one(params: Params, tmp_path: Path) -> None:
    folder = model_folder(tmp_path, "twice", b"twice")
    with tracking.stage_run("twice", params) as tracker:
        tracker.log_model(folder, "twice", {})
        tracker.log_model(folder, "twice", {})
    versions = tracker.client.search_model_versions("name = 'rlm-forge'")
    assert sum(v.run_id == tracker.run_id for v in versions) == 1


def test_datasets_have_digests_and_rows(params: Params, tmp_path: Path) -> None:
    folder = tmp_path / "data" / "queries"
    folder.mkdir(parents=True)
    (folder / "train.jsonl").write_text("{}\n{}\n")
    with tracking.stage_run("grpo", params) as tracker:
        tracker.log_datasets("training", folder / "train.jsonl", folder / "absent.jsonl")
    (found,) = tracker.client.get_run(tracker.run_id).inputs.dataset_inputs
    assert (found.dataset.name, found.dataset.profile) == ("queries/train.jsonl", '{"num_rows": 2}')
    assert len(found.dataset.digest) == 16
    assert [(t.key, t.value) for t in found.tags] == [("mlflow.data.context", "training")]


def test_an_artifact_is_what_it_was_when_it_was_logged(params: Params, tmp_path: Path) -> None:
    report, folder = tmp_path / "report.json", tmp_path / "plots"
    folder.mkdir()
    report.write_text("first")
    (folder / "a.csv").write_text("1")
    with tracking.stage_run("report", params) as tracker:
        tracker.log_artifact(report)
        tracker.log_artifact(folder)
        report.unlink()
    client = tracker.client
    assert Path(client.download_artifacts(tracker.run_id, "report.json")).read_text() == "first"
    assert [f.path for f in client.list_artifacts(tracker.run_id, "plots")] == ["plots/a.csv"]


def test_the_machine_is_watched() -> None:
    told: list[tuple[dict[str, float], int]] = []
    with system_metrics(lambda figures, step: told.append((dict(figures), step)), 30.0):
        pass
    ((figures, step),) = told  # the sample at the end
    assert step == 0
    assert 0 < figures["system/system_memory_usage_percentage"] <= 100
    assert "system/cpu_utilization_percentage" in figures


@pytest.mark.slow
def test_a_server_that_is_down_stops_nothing_and_gets_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is down when the pipeline's run begins and when its stages end; the next run brings all of it."""
    monkeypatch.setattr(tracking, "ANSWER_SECONDS", 0.5)
    monkeypatch.setattr(tracking, "CLOSE_SECONDS", 0.5)
    port = free_port()
    params = params_of(f"http://127.0.0.1:{port}")
    parent_script = """
import os, subprocess, sys
from rlm_core.params import MlflowParams, Params
from rlm_core.records import Judgement, Rollout, Turn
from tasks import tracking
from tasks.traces import log_rollouts
tracking.ANSWER_SECONDS = tracking.CLOSE_SECONDS = 0.5
params = Params(mlflow=MlflowParams(tracking_uri=sys.argv[1], system_metrics_seconds=0))
if len(sys.argv) == 2:
    with tracking.open_run("pipeline", params, tags={}) as parent:
        environment = {**os.environ, "RLM_PARENT_RUN_ID": parent.run_id}
        subprocess.run([sys.executable, __file__, sys.argv[1], "stage"], env=environment, check=True)
else:
    with tracking.stage_run("grpo", params) as tracker:
        for step in range(50):
            tracker.log_metrics({"reward": step / 50}, step=step)
        tree = Rollout("q.0", question="where?", query_id="q", turns=(Turn("a", "seen"),), answer=["x"])
        log_rollouts(tracker, [tree], [Judgement(8, 4, 0.6)], step=1)
"""
    script = tmp_path / "work.py"
    script.write_text(parent_script)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        [sys.executable, str(script), f"http://127.0.0.1:{port}"], env=environment, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    assert "does not answer; the work goes on" in result.stderr

    with mlflow_server(f"sqlite:///{tmp_path / 'server.db'}", port):
        monkeypatch.setattr(tracking, "ANSWER_SECONDS", 60)
        monkeypatch.setattr(tracking, "CLOSE_SECONDS", 60)
        with tracking.stage_run("report", params) as tracker:
            assert tracker.flush(60)
        client: MlflowClient = tracker.client
        runs = {run.info.run_name: run for run in client.search_runs([tracker.experiment_id])}
        assert set(runs) == {"pipeline", "grpo", "report"}
        assert {run.info.status for run in runs.values()} == {"FINISHED"}
        assert runs["grpo"].data.tags["mlflow.parentRunId"] == runs["pipeline"].info.run_id
        history = client.get_metric_history(runs["grpo"].info.run_id, "reward")
        assert [(m.step, m.value) for m in history] == [(step, step / 50) for step in range(50)]
        (trace,) = client.search_traces(locations=[tracker.experiment_id])
        assert {a.name: a.feedback.value for a in trace.info.assessments}["reward"] == 0.6
        assert trace.info.request_metadata.get("mlflow.sourceRun") in (None, runs["grpo"].info.run_id)


def test_a_run_whose_process_was_killed_ends_as_killed_and_can_be_taken_up(params: Params, tmp_path: Path) -> None:
    script = """
import os, signal, sys
from rlm_core.params import MlflowParams, Params
from tasks import tracking
params = Params(mlflow=MlflowParams(tracking_uri=sys.argv[1], system_metrics_seconds=0))
with tracking.stage_run("sft", params) as tracker:
    tracker.log_metrics({"loss": 2.0}, step=1)
    tracker.flush()
    print(tracker.run_id, flush=True)
    tracker.log_metrics({"loss": 1.0}, step=2)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    command = [sys.executable, "-c", script, str(params.mlflow.tracking_uri)]
    killed = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    run_id = killed.stdout.strip()
    with tracking.stage_run("sft", params) as tracker:
        assert tracker.client.get_run(run_id).info.status == "KILLED"
        assert tracker.exists(run_id)
        own = tracker.run_id
        tracker.adopt(run_id)
        assert tracker.run_id == run_id
        tracker.log_metrics({"loss": 0.5}, step=3)
        tracker.end("FINISHED")
    history = tracker.client.get_metric_history(run_id, "loss")
    assert [(m.step, m.value) for m in history] == [(1, 2.0), (2, 1.0), (3, 0.5)]
    assert tracker.client.get_run(run_id).info.status == "FINISHED"
    assert tracker.client.get_run(own).data.tags["continued_in"] == run_id
    assert not tracker.exists("0" * 32)


def test_traces_are_counted(params: Params, monkeypatch: pytest.MonkeyPatch) -> None:
    """MLflow only warns when a trace cannot be kept; here that is an outage, and the trace is sent again."""
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    real, failures = SqlAlchemyStore.start_trace, iter([True])

    def start_trace(self: SqlAlchemyStore, trace_info: object) -> object:
        if next(failures, False):
            raise ConnectionError("lost")
        return real(self, trace_info)

    monkeypatch.setattr(SqlAlchemyStore, "start_trace", start_trace)
    with tracking.stage_run("teach", params) as tracker:
        tree = Rollout("q.0", question="where?", query_id="q", turns=(Turn("a", "seen"),), answer=["x"])
        log_rollouts(tracker, [tree], [Judgement(8, 4, 0.6)])
        assert tracker.flush(30)
    traces = tracker.client.search_traces(locations=[tracker.experiment_id], run_id=tracker.run_id)
    assert len(traces) == 1
    assert next(failures, None) is None
