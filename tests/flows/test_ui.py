"""`make ui`, used through Prefect's API as its pages do: forms, runs with logs and artifacts, cached stages, cancel.

The stages take no time (tests/flows/toy_stage.py); servers, flows, DVC and MLflow are real.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from flows.dvc import lock_hash
from rlm_core.params import load_params

Look = Callable[[Path], list[str]]
pytestmark = pytest.mark.slow


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment(**variables: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PREFECT_", "MLFLOW_", "RLM_"))}
    return {**kept, "RLM_LOCK_DIR": ".cache", **variables}  # not the machine's: others may train meanwhile


def test_an_occupied_port_is_told(toy_project: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        env = environment(MLFLOW_PORT=str(port), PREFECT_PORT=str(free_port()))
        run = subprocess.run(
            [sys.executable, "-m", "flows.ui"],
            cwd=toy_project,
            env=env,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert run.returncode == 2
    assert f"MLflow: port {port} is in use" in run.stderr
    assert f"make ui MLFLOW_PORT={port + 10}" in run.stderr


@pytest.fixture(scope="module")
def ui(toy_project: Path) -> Iterator[tuple[str, str, subprocess.Popen[bytes]]]:
    prefect, mlflow = free_port(), free_port()
    log = toy_project / "ui.log"
    with open(log, "wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", "flows.ui"],
            cwd=toy_project,
            env=environment(PREFECT_PORT=str(prefect), MLFLOW_PORT=str(mlflow)),
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    deadline = time.monotonic() + 300
    try:
        while "pipeline/local" not in log.read_text():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.5)
        yield f"http://127.0.0.1:{prefect}/api", f"http://127.0.0.1:{mlflow}", process
    finally:
        process.kill()


def test_both_answer_and_the_form_knows_the_params(ui: tuple[str, str, subprocess.Popen[bytes]]) -> None:
    prefect, mlflow, _ = ui
    assert httpx.get(f"{mlflow}/health").is_success
    deployment = httpx.get(f"{prefect}/deployments/name/pipeline/local").raise_for_status().json()
    schema = deployment["parameter_openapi_schema"]
    assert {"current", "smoke", "cpu", "gpu"} <= set(schema["properties"]["profile"]["enum"])
    grpo = schema["definitions"]["GrpoOverrides"]["properties"]
    assert grpo["packing"]["enum"] == ["auto", "tree", "chain", "none"]
    assert grpo["rollouts_per_query"]["minimum"] == 2
    assert "the group that advantages compare" in grpo["rollouts_per_query"]["description"]
    assert "params.yaml as it is" in schema["properties"]["profile"]["description"]
    for flow in ("synthesize", "distill", "train", "evaluate", "sweep"):
        assert httpx.get(f"{prefect}/deployments/name/{flow}/local").is_success


@pytest.mark.parametrize(
    "parameters",
    [
        {"from_stage": "bogus"},
        {"profile": "bogus"},
        {"overrides": {"grpo": {"steps": 0}}},
        {"overrides": {"grpo": {"stepz": 3}}},
    ],
)
def test_a_bad_value_is_refused_before_a_run_exists(
    ui: tuple[str, str, subprocess.Popen[bytes]], parameters: dict[str, object]
) -> None:
    prefect, _, _ = ui
    deployment = httpx.get(f"{prefect}/deployments/name/pipeline/local").raise_for_status().json()
    reply = httpx.post(f"{prefect}/deployments/{deployment['id']}/create_flow_run", json={"parameters": parameters})
    assert reply.status_code in (409, 422), reply.text
    assert httpx.post(f"{prefect}/flow_runs/count", json={}).json() == 0


class Api:
    """The few calls that the pages of Prefect's UI make."""

    def __init__(self, address: str) -> None:
        self.client = httpx.Client(base_url=address, timeout=60)

    def post(self, path: str, **body: object) -> Any:
        return self.client.post(path, json=body).raise_for_status().json()

    def start(self, flow: str, **parameters: object) -> str:
        deployment = self.client.get(f"/deployments/name/{flow}/local").raise_for_status().json()
        return str(self.post(f"/deployments/{deployment['id']}/create_flow_run", parameters=parameters)["id"])

    def state(self, run: str) -> dict[str, Any]:
        return dict(self.client.get(f"/flow_runs/{run}").raise_for_status().json()["state"])

    def end_of(self, run: str, seconds: float = 240) -> str:
        deadline = time.monotonic() + seconds
        while (state := self.state(run))["type"] not in ("COMPLETED", "FAILED", "CRASHED", "CANCELLED"):
            assert time.monotonic() < deadline, (state, self.logs(run)[-20:])
            time.sleep(0.3)
        return str(state["type"])

    def tasks(self, run: str) -> dict[str, dict[str, Any]]:
        """The state of each task run, by the stage's name. Prefect writes them a moment after the run has ended."""
        deadline = time.monotonic() + 30
        while True:
            rows = self.post("/task_runs/filter", task_runs={"flow_run_id": {"any_": [run]}})
            found = {row["name"].rpartition("-")[0]: row["state"] for row in rows}
            if all(state["type"] == "COMPLETED" for state in found.values()) or time.monotonic() > deadline:
                return found
            time.sleep(0.3)

    def logs(self, run: str) -> list[str]:
        rows = self.post("/logs/filter", logs={"flow_run_id": {"any_": [run]}}, sort="TIMESTAMP_ASC")
        return [row["message"] for row in rows]

    def artifacts(self, run: str) -> dict[str, dict[str, Any]]:
        rows = self.post("/artifacts/filter", artifacts={"flow_run_id": {"any_": [run]}})
        return {row["key"]: row for row in rows}


def test_a_run_shows_states_logs_and_artifacts(ui: tuple[str, str, subprocess.Popen[bytes]], toy_project: Path) -> None:
    api = Api(ui[0])
    run = api.start(
        "pipeline", from_stage="papers", to_stage="papers", overrides={"seed": 7, "papers": {"max_papers": 5}}
    )
    assert api.end_of(run) == "COMPLETED", api.logs(run)
    assert {name: state["name"] for name, state in api.tasks(run).items()} == {"papers": "Completed"}
    # the copy's own code ran, with the form's values, which are now params.yaml
    assert (toy_project / "data" / "papers").read_text() == "made by papers with seed 7\n"
    params = load_params(toy_project / "params.yaml")
    assert (params.seed, params.papers.max_papers, params.model.name) == (7, 5, "tiny-random")
    artifacts = api.artifacts(run)
    assert artifacts["progress-papers"]["data"] == 100
    assert "papers: 4/4 things" in artifacts["progress-papers"]["description"]
    assert "/#/experiments/" in artifacts["mlflow-run"]["data"]
    assert "/traces" in artifacts["rollouts"]["data"]
    log = api.logs(run)
    assert any("Running stage 'papers'" in line for line in log)
    assert any("papers: 1/4 things" in line for line in log)
    assert any(line.startswith("stage 'papers' is done (dvc.lock ") for line in log)

    again = api.start("pipeline", from_stage="papers", to_stage="papers")
    assert api.end_of(again) == "COMPLETED"
    state = api.tasks(again)["papers"]
    assert state["name"] == "Cached"
    assert f"dvc.lock {lock_hash('papers', toy_project)}" in state["message"]


def test_cancel_ends_all_processes_of_the_stage_and_the_next_run_goes_on(
    ui: tuple[str, str, subprocess.Popen[bytes]], toy_project: Path, running_in: Look
) -> None:
    api = Api(ui[0])
    hold = toy_project / "hold-ocr"
    hold.touch()
    run = api.start("pipeline", from_stage="ocr", to_stage="ocr")
    deadline = time.monotonic() + 180
    while not (toy_project / "holding-ocr").exists():
        assert time.monotonic() < deadline, api.logs(run)
        time.sleep(0.2)
    assert any("toy_stage.py ocr" in line for line in running_in(toy_project))
    # a second flow in this folder waits its turn
    second = api.start("pipeline", from_stage="papers", to_stage="papers")
    while not any("workspace.lock is held by flow 'pipeline'" in line for line in api.logs(second)):
        assert time.monotonic() < deadline, api.logs(second)
        time.sleep(0.5)

    api.post(f"/flow_runs/{run}/set_state", state={"type": "CANCELLING", "name": "Cancelling"})
    assert api.end_of(run) == "CANCELLED"
    left = [line for line in running_in(toy_project) if "toy_stage" in line or "sleep" in line or "dvc" in line]
    assert left == []
    assert api.end_of(second) == "COMPLETED"

    hold.unlink()
    assert api.end_of(api.start("pipeline", from_stage="ocr", to_stage="ocr")) == "COMPLETED"
    assert (toy_project / "data" / "ocr").exists()


def left_after(folder: Path, look: Look, seconds: float = 20.0) -> list[str]:
    deadline = time.monotonic() + seconds
    while (left := look(folder)) and time.monotonic() < deadline:
        time.sleep(0.3)
    return left


def test_all_ends_together(ui: tuple[str, str, subprocess.Popen[bytes]], toy_project: Path, running_in: Look) -> None:
    _, _, process = ui
    process.send_signal(signal.SIGTERM)
    process.wait(60)
    assert left_after(toy_project, running_in) == []
    assert not (toy_project / ".prefect" / "ui-address").exists()


@pytest.mark.parametrize("entry", ["flows.ui", "flows.run"])
def test_kill_9_leaves_no_server_and_no_stage(toy_project: Path, entry: str, running_in: Look) -> None:
    log = toy_project / f"{entry}.log"
    env = environment(PREFECT_PORT=str(free_port()), MLFLOW_PORT=str(free_port()))
    with open(log, "wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", entry], cwd=toy_project, env=env, stdout=out, stderr=out
        )
    sign = "pipeline/local" if entry == "flows.ui" else "Running stage 'papers'"
    deadline = time.monotonic() + 180
    while sign not in log.read_text():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)
    process.kill()
    process.wait()
    assert left_after(toy_project, running_in) == []
