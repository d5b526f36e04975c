"""`make ui`, used through Prefect's API as its pages do: forms, runs with logs and artifacts, cached stages, cancel.

The stages take no time (tests/flows/toy_stage.py); servers, flows, DVC and MLflow are real.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
import pytest
from serving import Api, Look, environment, free_port, left_after, processes_in, start_ui

from flows.dvc import lock_hash
from rlm_core.params import load_params

pytestmark = pytest.mark.slow


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


@dataclass(frozen=True)
class Ui:
    prefect: int
    mlflow: int
    process: subprocess.Popen[bytes]


@pytest.fixture(scope="module")
def ui(toy_project: Path) -> Iterator[Ui]:
    prefect, mlflow = free_port(), free_port()
    process = start_ui(toy_project, prefect=prefect, mlflow=mlflow)
    yield Ui(prefect, mlflow, process)
    process.kill()


@pytest.fixture
def api(ui: Ui) -> Api:
    return Api(ui.prefect)


def test_both_answer_and_the_form_knows_the_params(ui: Ui, api: Api) -> None:
    assert httpx.get(f"http://127.0.0.1:{ui.mlflow}/health").is_success
    schema = api.get("/deployments/name/pipeline/local")["parameter_openapi_schema"]
    assert {"current", "smoke", "cpu", "gpu"} <= set(schema["properties"]["profile"]["enum"])
    assert "params.yaml as it is" in schema["properties"]["profile"]["description"]
    grpo = schema["definitions"]["GrpoOverrides"]["properties"]
    assert grpo["packing"]["enum"] == ["auto", "tree", "chain", "none"]
    assert grpo["rollouts_per_query"]["minimum"] == 2
    assert "the group that advantages compare" in grpo["rollouts_per_query"]["description"]
    for flow in ("synthesize", "distill", "train", "evaluate", "sweep"):
        assert api.get(f"/deployments/name/{flow}/local")["parameter_openapi_schema"]["properties"]


@pytest.mark.parametrize(
    "parameters",
    [
        {"from_stage": "bogus"},
        {"profile": "bogus"},
        {"overrides": {"grpo": {"steps": 0}}},
        {"overrides": {"grpo": {"stepz": 3}}},
    ],
)
def test_a_bad_value_is_refused_before_a_run_exists(api: Api, parameters: dict[str, object]) -> None:
    with pytest.raises(httpx.HTTPStatusError) as refusal:
        api.start("pipeline/local", **parameters)
    assert refusal.value.response.status_code in (409, 422), refusal.value.response.text
    assert api.post("/flow_runs/count") == 0


def test_a_run_shows_states_logs_and_artifacts(api: Api, toy_project: Path) -> None:
    run = api.start(
        "pipeline/local", from_stage="papers", to_stage="papers", overrides={"seed": 7, "papers": {"max_papers": 5}}
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
    api.wait_for_log(run, "Running stage 'papers'", "papers: 1/4 things", "stage 'papers' is done (dvc.lock ")

    again = api.start("pipeline/local", from_stage="papers", to_stage="papers")
    assert api.end_of(again) == "COMPLETED"
    state = api.tasks(again)["papers"]
    assert state["name"] == "Cached"
    assert f"dvc.lock {lock_hash('papers', toy_project)}" in state["message"]


def test_cancel_ends_all_processes_of_the_stage_and_the_next_run_goes_on(api: Api, toy_project: Path) -> None:
    hold = toy_project / "hold-ocr"
    hold.touch()
    run = api.start("pipeline/local", from_stage="ocr", to_stage="ocr")
    deadline = time.monotonic() + 180
    while not (toy_project / "holding-ocr").exists():
        assert time.monotonic() < deadline, api.logs(run)
        time.sleep(0.2)
    stage = processes_in(toy_project, "toy_stage.py ocr", "sleep 600", "dvc repro")
    assert len(stage) >= 3
    # a second flow in this folder waits its turn
    second = api.start("pipeline/local", from_stage="ocr", to_stage="ocr")
    api.wait_for_log(second, "workspace.lock is held by flow 'pipeline'", seconds=180)

    api.cancel(run)
    assert api.end_of(run) == "CANCELLED"
    assert psutil.wait_procs(stage, timeout=5)[1] == []
    hold.unlink()
    assert api.end_of(second) == "COMPLETED"
    assert (toy_project / "data" / "ocr").exists()


def test_all_ends_together(ui: Ui, toy_project: Path, running_in: Look) -> None:
    ui.process.send_signal(signal.SIGTERM)
    ui.process.wait(60)
    assert left_after(toy_project, running_in) == []
    assert not (toy_project / ".prefect" / "ui-address").exists()


@pytest.mark.parametrize("entry", ["flows.ui", "flows.run"])
def test_kill_9_leaves_no_server_and_no_stage(toy_project: Path, entry: str, running_in: Look) -> None:
    log = toy_project / f"{entry}.log"
    (toy_project / "hold-parse").touch()
    env = environment(PREFECT_PORT=str(free_port()), MLFLOW_PORT=str(free_port()))
    with open(log, "wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", entry], cwd=toy_project, env=env, stdout=out, stderr=out
        )
    begun = {
        "flows.ui": lambda: "pipeline/local" in log.read_text(),
        "flows.run": lambda: (toy_project / "holding-parse").exists(),
    }
    deadline = time.monotonic() + 300
    while not begun[entry]():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)
    process.kill()
    process.wait()
    assert left_after(toy_project, running_in) == []
