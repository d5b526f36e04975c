"""`make ui` of a copy as a test drives it: started, asked through Prefect's API, killed."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import psutil

Look = Callable[[Path], list[str]]
FINAL = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment(**variables: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PREFECT_", "MLFLOW_", "RLM_"))}
    return {**kept, "RLM_LOCK_DIR": ".cache", **variables}  # not the machine's: others may train meanwhile


def start_ui(project: Path, *, prefect: int, mlflow: int, seconds: float = 300) -> subprocess.Popen[bytes]:
    """Returns once the flows are served."""
    log = project / "ui.log"
    with open(log, "wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", "flows.ui"],
            cwd=project,
            env=environment(PREFECT_PORT=str(prefect), MLFLOW_PORT=str(mlflow)),
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    deadline = time.monotonic() + seconds
    while "pipeline/local" not in log.read_text():
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            raise AssertionError(log.read_text())
        time.sleep(0.5)
    return process


def left_after(folder: Path, look: Look, seconds: float = 20.0) -> list[str]:
    """What still works in a folder after at most `seconds`."""
    deadline = time.monotonic() + seconds
    while (left := look(folder)) and time.monotonic() < deadline:
        time.sleep(0.3)
    return left


def processes_in(folder: Path, *signs: str) -> list[psutil.Process]:
    """What works in a folder with one of these signs in its command line."""
    found = []
    for process in psutil.process_iter(["cwd", "cmdline"]):
        line = " ".join(process.info["cmdline"] or [])
        if (process.info["cwd"] or "") == str(folder) and any(sign in line for sign in signs):
            found.append(process)
    return found


class Api:
    """The few calls that the pages of Prefect's UI make."""

    def __init__(self, port: int) -> None:
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{port}/api", timeout=60)

    def get(self, path: str) -> Any:
        return self._ask("GET", path)

    def post(self, path: str, **body: object) -> Any:
        return self._ask("POST", path, json=body)

    def _ask(self, method: str, path: str, **content: object) -> Any:
        """A server whose SQLite is locked answers 503 on a busy machine: asked again, as Prefect's client does."""
        for pause in (1, 2, 4, 8, 0):
            reply = self.client.request(method, path, **content)  # type: ignore[arg-type]
            if reply.status_code != 503:
                break
            time.sleep(pause)
        return reply.raise_for_status().json()

    def start(self, deployment: str, **parameters: object) -> str:
        """Asks for a run of `FLOW/DEPLOYMENT`; returns its id."""
        known = self.get(f"/deployments/name/{deployment}")
        return str(self.post(f"/deployments/{known['id']}/create_flow_run", parameters=parameters)["id"])

    def state(self, run: str) -> dict[str, Any]:
        return dict(self.get(f"/flow_runs/{run}")["state"])

    def cancel(self, run: str) -> None:
        self.post(f"/flow_runs/{run}/set_state", state={"type": "CANCELLING", "name": "Cancelling"})

    def end_of(self, run: str, seconds: float = 240) -> str:
        deadline = time.monotonic() + seconds
        while (state := self.state(run))["type"] not in FINAL:
            assert time.monotonic() < deadline, (state, self.logs(run)[-20:])
            time.sleep(0.3)
        return str(state["type"])

    def tasks(self, run: str) -> dict[str, dict[str, Any]]:
        """The state of each task run, by the stage's name. Prefect writes them a moment after the run has ended."""
        deadline = time.monotonic() + 30
        while True:
            rows = self.post("/task_runs/filter", task_runs={"flow_run_id": {"any_": [run]}})
            found = {row["name"].rpartition("-")[0]: row["state"] for row in rows}
            done = found and all(state["type"] == "COMPLETED" for state in found.values())
            if done or time.monotonic() > deadline:
                return found
            time.sleep(0.3)

    def logs(self, run: str) -> list[str]:
        rows = self.post("/logs/filter", logs={"flow_run_id": {"any_": [run]}}, sort="TIMESTAMP_ASC")
        return [row["message"] for row in rows]

    def wait_for_log(self, run: str, *words: str, seconds: float = 120) -> None:
        """Log lines come in batches, the last ones after the run has ended."""
        deadline = time.monotonic() + seconds
        while True:
            log = "\n".join(self.logs(run))
            missing = [word for word in words if word not in log]
            if not missing:
                return
            assert time.monotonic() < deadline, f"no line with {missing} in:\n{log[-3000:]}"
            time.sleep(0.5)

    def artifacts(self, run: str) -> dict[str, dict[str, Any]]:
        rows = self.post("/artifacts/filter", artifacts={"flow_run_id": {"any_": [run]}})
        return {row["key"]: row for row in rows}
