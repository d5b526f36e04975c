"""kill -9 of every process of the pipeline at random moments, as `make ui` runs it: stage, flow, worker, MLflow, Prefect.

The kinds come in turn, the moments are drawn. After each kill: nothing of the stage lives on, and no output is half-written.
At the end `dvc repro` finishes, and MLflow has every step of the training. `make proof` runs this; RLM_KILLS (20) and
RLM_SEED (0) are its parameters.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import yaml
from mlflow import MlflowClient
from serving import FINAL, Api, Look, environment, free_port, left_after, processes_in, start_ui

from rlm_core.files import read_json, read_jsonl

pytestmark = pytest.mark.proof

KILLS = int(os.environ.get("RLM_KILLS", "20"))
SEED = int(os.environ.get("RLM_SEED", "0"))
VICTIMS = {
    "stage": "-m tasks.",
    "dvc": "-m dvc repro",
    "flow": "-m prefect.engine",
    "worker": "-m flows.ui",
    "mlflow": "-m mlflow server",
    "prefect": "-m prefect server start",
}
"""What to look for in a command line."""
GONE_WITH = {"stage": ("tasks.",), "dvc": ("tasks.", "dvc repro"), "flow": ("tasks.", "dvc repro"), "worker": ("",)}
"""What must not outlive a victim. A server's end is no stage's end."""


def processes(project: Path, kind: str) -> list[psutil.Process]:
    """Of this kind, in this copy; not their supervisors, whose command line holds the supervised one's."""
    found = processes_in(project, VICTIMS[kind])
    return [process for process in found if "rlm_core.processes" not in " ".join(process.info["cmdline"])]


def whole_outputs(project: Path) -> None:
    """What lies at the place of an output can be read to its end."""
    for folder in ("data", "reports"):
        for file in (project / folder).rglob("*"):
            if file.name.startswith(".") or any(part.startswith(".") for part in file.relative_to(project).parts):
                continue
            if file.suffix == ".json":
                read_json(file)
            elif file.suffix == ".jsonl":
                list(read_jsonl(file))
    for model in (project / "models").glob("[!.]*"):
        read_json(model / "config.json")
        assert list(model.glob("*.safetensors")), model
    lock = project / "dvc.lock"
    if lock.exists():
        assert yaml.safe_load(lock.read_text())["schema"] == "2.0"


@pytest.fixture
def ends(project: Path) -> Iterator[None]:
    """Nothing that a failed test started goes on."""
    yield
    for process in processes_in(project, ""):
        if process.pid != os.getpid():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


def end_all(project: Path, ui: subprocess.Popen[bytes], look: Look) -> None:
    ui.kill()
    ui.wait()
    assert left_after(project, look, 30) == []


@pytest.mark.usefixtures("ends")
def test_runs_survive_kills_at_random_moments(
    project: Path, running_in: Look, capsys: pytest.CaptureFixture[str]
) -> None:
    dice = random.Random(SEED)
    ports = {"prefect": free_port(), "mlflow": free_port()}
    ui: subprocess.Popen[bytes] | None = None
    run = ""
    told: list[str] = []
    misses = 0
    while len(told) < KILLS:
        kind = list(VICTIMS)[len(told) % len(VICTIMS)]
        if ui is None:
            ui = start_ui(project, **ports, seconds=600)
            run = ""
        api = Api(ports["prefect"])
        if not run or api.state(run)["type"] in FINAL:
            run = api.start("pipeline/local", force=(project / "reports" / "report.html").exists())
        if not stage_starts(project, api, run):
            continue
        time.sleep(dice.uniform(0.0, 45.0))
        victims = processes(project, kind)
        stages = sorted({p.info["cmdline"][-1] for p in processes(project, "stage")})
        if not victims:  # a pause between two stages, or the run is over: another moment
            misses += 1
            assert misses < 20 + 5 * KILLS, f"no process of kind '{kind}' was ever found: {told}"
            continue
        told.append(f"{len(told)}: {kind} ({len(victims)}) during {', '.join(stages) or 'a pause between stages'}")
        with capsys.disabled():
            print(told[-1], flush=True)
        before = {p.pid for sign in GONE_WITH.get(kind, ()) for p in processes_in(project, sign)}
        for victim in victims:
            with contextlib.suppress(psutil.NoSuchProcess):
                victim.send_signal(signal.SIGKILL)
        assert none_alive(before), f"'{kind}' left orphans: {told}"
        whole_outputs(project)
        if kind in ("worker", "prefect", "mlflow"):
            # as a person would: end what is left of `make ui` and start it again
            time.sleep(dice.uniform(0.0, 5.0))
            end_all(project, ui, running_in)
            ui = None
    if ui is not None:
        end_all(project, ui, running_in)
    whole_outputs(project)

    command = [sys.executable, "-m", "dvc", "repro"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command, cwd=project, env=environment(PATH=path), capture_output=True, text=True, timeout=1800, check=False
    )
    assert done.returncode == 0, "\n".join(told) + done.stdout[-3000:] + done.stderr[-3000:]
    assert running_in(project) == []
    assert (project / "reports" / "report.html").exists()
    nothing_is_lost(project)


def stage_starts(project: Path, api: Api, run: str, seconds: float = 300) -> bool:
    """Waits until a stage of the run works; False if the run is over instead."""
    deadline = time.monotonic() + seconds
    while not processes(project, "stage"):
        if api.state(run)["type"] in FINAL:
            return False
        assert time.monotonic() < deadline, f"no stage has started: {api.logs(run)[-20:]}"
        time.sleep(0.2)
    return True


def nothing_is_lost(project: Path) -> None:
    """MLflow has each step of the training once or more, with the values of the stage's own record."""
    client = MlflowClient(f"sqlite:///{project / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("rlm-forge")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id], filter_string="tags.stage = 'grpo'")
    steps = json.loads((project / "reports" / "training.json").read_text())["steps"]
    wanted = {step["step"]: step["reward_mean"] for step in steps if "reward_mean" in step}
    for one in runs:
        history = {m.step: m.value for m in client.get_metric_history(one.info.run_id, "reward_mean")}
        if set(wanted) <= set(history) and all(history[step] == pytest.approx(wanted[step]) for step in wanted):
            return
    raise AssertionError(f"no run of grpo in MLflow has the steps {sorted(wanted)}")


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def none_alive(pids: set[int], seconds: float = 30) -> bool:
    deadline = time.monotonic() + seconds
    while (left := any(alive(pid) for pid in pids)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return not left
