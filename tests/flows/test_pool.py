"""A stage of the pool `gpu` on a worker: in the caller's folder, and in a checkout that sees nothing of the caller's.

The real server, `prefect deploy --all` and a process worker; stages that take no time (tests/flows/toy_stage.py).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from serving import Api, Look, environment, free_port, left_after, start_ui

pytestmark = pytest.mark.proof

MADE_BY_RUNNING = shutil.ignore_patterns(
    ".prefect", ".cache", "cache", "tmp", "data", "models", "reports", "dvc.lock", "mlflow*"
)


def can_hide() -> bool:
    """Whether a process can get its own view of the file system here."""
    if shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode == 0


class Pool:
    """The served flows of `project`, its deployments on pools, and a worker that works in `checkout`."""

    def __init__(self, project: Path, checkout: Path) -> None:
        self.project, self.checkout = project, checkout
        self.port = free_port()
        self.variables = environment(
            PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            PREFECT_API_URL=f"http://127.0.0.1:{self.port}/api",
            PREFECT_HOME=str(checkout / ".prefect"),
            RLM_FORGE_DIR=str(checkout),
        )
        self.ui = start_ui(project, prefect=self.port, mlflow=free_port(), seconds=600)
        self.api = Api(self.port)
        self.worker: subprocess.Popen[bytes] | None = None

    def run(self, *command: str, folder: Path) -> None:
        done = subprocess.run(command, cwd=folder, env=self.variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]

    def deploy(self) -> None:
        for name in ("cpu", "gpu"):
            self.run("prefect", "work-pool", "create", name, "--type", "process", folder=self.project)
        self.run("prefect", "--no-prompt", "deploy", "--all", folder=self.project)

    def start_worker(self, *, hidden: Path | None) -> None:
        """`hidden` is a folder that the worker sees as empty."""
        work = "exec prefect worker start --pool gpu"
        command = ["bash", "-c", work]
        if hidden is not None:
            command = ["unshare", "-rm", "bash", "-c", f"mount -t tmpfs none '{hidden}' && {work}"]
        self.worker = subprocess.Popen(command, cwd=self.checkout, env=self.variables, stdout=subprocess.DEVNULL)

    def stop_worker(self) -> None:
        if self.worker is not None:
            self.worker.kill()
            self.worker.wait()


@pytest.fixture(scope="module")
def pool(toy_project: Path) -> Iterator[Pool]:
    checkout = toy_project.parent / "elsewhere" / "checkout"
    shutil.copytree(toy_project, checkout, ignore=MADE_BY_RUNNING)
    made = Pool(toy_project, checkout)
    try:
        made.deploy()
        yield made
    finally:
        made.stop_worker()
        made.ui.kill()


def test_a_worker_in_the_same_folder_works_there(pool: Pool) -> None:
    pool.start_worker(hidden=None)
    run = pool.api.start("pipeline/local", from_stage="papers", to_stage="papers")
    assert pool.api.end_of(run, 600) == "COMPLETED", pool.api.logs(run)
    (pool.project / "data" / "sft").write_text("samples")  # stands for the stages between
    run = pool.api.start("pipeline/local", from_stage="sft", to_stage="sft", gpu="pool")
    assert pool.api.end_of(run, 600) == "COMPLETED", pool.api.logs(run)
    assert (pool.project / "models" / "sft").read_text().startswith("made by sft")
    assert not (pool.checkout / "models").exists()
    pool.stop_worker()


@pytest.mark.skipif(not can_hide(), reason="a file system of its own for the worker needs `unshare -rm`")
def test_a_worker_elsewhere_gets_and_sends_files_through_the_remote(pool: Pool, running_in: Look) -> None:
    store = pool.project.parent / "elsewhere" / "store"
    for folder in (pool.project, pool.checkout):
        pool.run("dvc", "remote", "add", "-f", "-d", "disk", str(store), folder=folder)
    run = pool.api.start("pipeline/local", from_stage="parse", to_stage="distill", overrides={"seed": 11})
    assert pool.api.end_of(run, 900) == "COMPLETED", pool.api.logs(run)
    pool.start_worker(hidden=pool.project)
    run = pool.api.start("pipeline/local", from_stage="sft", to_stage="sft", gpu="pool")
    assert pool.api.end_of(run, 600) == "COMPLETED", pool.api.logs(run)
    # made there, from inputs that went there, and back with its entry in dvc.lock
    assert (pool.checkout / "models" / "sft").read_text() == "made by sft with seed 11\n"
    assert (pool.project / "models" / "sft").read_text() == "made by sft with seed 11\n"
    locks = [yaml.safe_load((folder / "dvc.lock").read_text()) for folder in (pool.project, pool.checkout)]
    assert locks[0]["stages"]["sft"] == locks[1]["stages"]["sft"]

    # cancelling the caller ends the stage on the worker
    (pool.checkout / "hold-grpo").touch()
    run = pool.api.start("pipeline/local", from_stage="grpo", to_stage="grpo", gpu="pool")
    deadline = time.monotonic() + 300
    while not (pool.checkout / "holding-grpo").exists():
        assert time.monotonic() < deadline, pool.api.logs(run)
        time.sleep(0.5)
    pool.api.cancel(run)
    assert pool.api.end_of(run, 300) == "CANCELLED"
    busy = lambda folder: [line for line in running_in(folder) if "toy_stage" in line or "sleep" in line]  # noqa: E731
    assert left_after(pool.checkout, busy, 60) == []
    pool.stop_worker()
