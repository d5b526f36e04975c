"""`make ui`: both servers and the served flow answer, bad values are refused before a run exists, and all ends together."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

Look = Callable[[Path], list[str]]
pytestmark = pytest.mark.slow


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment(**variables: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PREFECT_", "MLFLOW_", "RLM_"))}
    return {**kept, **variables}


def test_an_occupied_port_is_told(project: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        env = environment(MLFLOW_PORT=str(port), PREFECT_PORT=str(free_port()))
        run = subprocess.run(
            [sys.executable, "-m", "flows.ui"],
            cwd=project,
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
def ui(project: Path) -> Iterator[tuple[str, str, subprocess.Popen[bytes]]]:
    prefect, mlflow = free_port(), free_port()
    log = project / "ui.log"
    with open(log, "wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", "flows.ui"],
            cwd=project,
            env=environment(PREFECT_PORT=str(prefect), MLFLOW_PORT=str(mlflow)),
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    deadline = time.monotonic() + 180
    while "pipeline/smoke" not in log.read_text():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.5)
    yield f"http://127.0.0.1:{prefect}/api", f"http://127.0.0.1:{mlflow}", process
    process.kill()


def test_both_answer_and_the_form_knows_the_params(ui: tuple[str, str, subprocess.Popen[bytes]]) -> None:
    prefect, mlflow, _ = ui
    assert httpx.get(f"{mlflow}/health").is_success
    deployment = httpx.get(f"{prefect}/deployments/name/pipeline/smoke").raise_for_status().json()
    schema = deployment["parameter_openapi_schema"]
    grpo = schema["definitions"]["GrpoParams"]["properties"]
    assert grpo["packing"]["enum"] == ["auto", "tree", "chain", "none"]
    assert grpo["rollouts_per_query"]["minimum"] == 2
    assert "the group that advantages compare" in grpo["rollouts_per_query"]["description"]
    assert deployment["parameters"]["params"]["model"]["name"] == "tiny-random"


@pytest.mark.parametrize(
    "parameters", [{"start": "bogus"}, {"params": {"grpo": {"steps": 0}}}, {"params": {"grpo": {"stepz": 3}}}]
)
def test_a_bad_value_is_refused_before_a_run_exists(
    ui: tuple[str, str, subprocess.Popen[bytes]], parameters: dict[str, object]
) -> None:
    prefect, _, _ = ui
    deployment = httpx.get(f"{prefect}/deployments/name/pipeline/current").raise_for_status().json()
    reply = httpx.post(f"{prefect}/deployments/{deployment['id']}/create_flow_run", json={"parameters": parameters})
    assert reply.status_code in (409, 422), reply.text
    assert httpx.post(f"{prefect}/flow_runs/count", json={}).json() == 0


def left_after(project: Path, look: Look, seconds: float = 20.0) -> list[str]:
    deadline = time.monotonic() + seconds
    while (left := look(project)) and time.monotonic() < deadline:
        time.sleep(0.3)
    return left


def test_all_ends_together(ui: tuple[str, str, subprocess.Popen[bytes]], project: Path, running_in: Look) -> None:
    _, _, process = ui
    process.send_signal(signal.SIGTERM)
    process.wait(60)
    assert left_after(project, running_in) == []
    assert not (project / ".prefect" / "ui-address").exists()


@pytest.mark.parametrize("entry", ["flows.ui", "flows.run"])
def test_kill_9_leaves_no_server_and_no_stage(project: Path, entry: str, running_in: Look) -> None:
    log = project / f"{entry}.log"
    env = environment(PREFECT_PORT=str(free_port()), MLFLOW_PORT=str(free_port()))
    with open(log, "wb") as out:
        process = subprocess.Popen([sys.executable, "-u", "-m", entry], cwd=project, env=env, stdout=out, stderr=out)
    sign = "pipeline/smoke" if entry == "flows.ui" else "Running stage 'papers'"
    deadline = time.monotonic() + 180
    while sign not in log.read_text():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)
    process.kill()
    process.wait()
    assert left_after(project, running_in) == []
