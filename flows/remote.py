"""Stages on other machines: the flow `stage` runs one on a worker; `run_on_pool` asks the pool `gpu` for it and waits.

A worker in the caller's own folder (one machine, or a shared file system) works there. A worker elsewhere has its own
checkout of the same commit: inputs and outputs travel through the DVC remote, and the stage's entry of dvc.lock comes
back as an artifact of the flow run.
"""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

from flows.environment import ROOT, use_local_prefect

use_local_prefect()

import yaml  # noqa: E402
from prefect import flow, get_client, get_run_logger  # noqa: E402
from prefect.artifacts import create_markdown_artifact  # noqa: E402
from prefect.client.schemas.filters import ArtifactFilter  # noqa: E402
from prefect.client.schemas.objects import FlowRun  # noqa: E402
from prefect.deployments import run_deployment  # noqa: E402
from prefect.states import Cancelling  # noqa: E402
from pydantic import BaseModel  # noqa: E402

from flows.dvc import StageFailed, run_dvc  # noqa: E402
from flows.forms import StageName  # noqa: E402
from flows.workspace import exclusive, write_params  # noqa: E402
from rlm_core.files import write_text  # noqa: E402
from rlm_core.params import Params  # noqa: E402

DEPLOYMENT = "stage/gpu"
TOKEN = Path(".cache/folder-token")


class Caller(BaseModel):
    """Who asks for a stage, and what the worker needs to know of the asking folder."""

    folder: str
    token: str
    """What the folder's `.cache/folder-token` holds: a worker that reads the same there shares the folder."""
    commit: str
    lock: str
    """dvc.lock as text."""
    remote: bool
    """A default DVC remote is configured, and holds what the stage reads."""
    env: dict[str, str] = {}


@flow(flow_run_name="{name}")
def stage(name: StageName, params: Params, caller: Caller, force: bool = False) -> None:
    """One stage for another flow, on this machine. Started by flows with `gpu: pool`, not by hand."""
    from flows.stages import run_stage

    logger = get_run_logger()
    run = run_stage.with_options(name=name)
    if shares_folder(caller):
        run(name, caller.env, force, Path(caller.folder))
        return
    refuse_other_code(caller)
    with exclusive(ROOT, f"stage '{name}' for {caller.folder}", logger.info):
        write_params(params, ROOT / "params.yaml")
        write_text(ROOT / "dvc.lock", caller.lock)
        inputs = outputs_read_by(name, ROOT)
        run_dvc(["pull", *inputs], what=f"fetching the inputs of '{name}'", root=ROOT, on_line=logger.info)
        # a database file of the caller's machine is not here: the run is then recorded in this checkout's
        here = caller.env.get("RLM_TRACKING_URI", "").startswith("sqlite")
        run(name, {} if here else caller.env, force, ROOT)
        run_dvc(["push", name], what=f"storing the outputs of '{name}'", root=ROOT, on_line=logger.info)
        entry = read_lock(ROOT)["stages"][name]
        create_markdown_artifact(key=f"lock-{name}", markdown=json.dumps(entry), description="Its entry in dvc.lock.")


def shares_folder(caller: Caller) -> bool:
    token = Path(caller.folder) / TOKEN
    return token.exists() and token.read_text() == caller.token


def refuse_other_code(caller: Caller) -> None:
    """Raise unless this checkout can stand for the caller's."""
    if not caller.remote:
        raise StageFailed(
            f"this worker does not see {caller.folder}, and the project has no DVC remote to send files through: "
            "dvc remote add -d NAME ADDRESS"
        )
    if (here := commit_of(ROOT)) != caller.commit:
        raise StageFailed(f"this worker's checkout is at {here}, the caller's at {caller.commit}: git checkout it here")


def commit_of(root: Path) -> str:
    """The commit that a folder is at; empty where git is not in use."""
    found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, check=False)
    return found.stdout.strip()


def read_lock(root: Path) -> dict[str, Any]:
    lock = root / "dvc.lock"
    return dict(yaml.safe_load(lock.read_text(encoding="utf-8"))) if lock.exists() else {"schema": "2.0", "stages": {}}


def outputs_read_by(name: str, root: Path) -> list[str]:
    """The outputs of other stages that a stage reads."""
    stages = yaml.safe_load((root / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    made = set()
    for entry in stages.values():
        for kind in ("outs", "metrics", "plots"):
            made |= {next(iter(out)) if isinstance(out, dict) else out for out in entry.get(kind, [])}
    return [dep for dep in stages[name]["deps"] if dep in made]


def run_on_pool(name: str, env: dict[str, str], params: Params, *, force: bool, root: Path) -> None:
    """Run a stage by deployment and bring its outputs here; raises `StageFailed`. Ends the other run with this one."""
    logger = get_run_logger()
    caller = describe_caller(root, env)
    if caller.remote:
        inputs = outputs_read_by(name, root)
        run_dvc(["push", *inputs], what=f"sending the inputs of '{name}'", root=root, on_line=logger.info)
    logger.info("stage '%s' goes to the pool `gpu`; it waits there for a free worker", name)
    # `timeout=0` returns at once, so that the run is known when this flow is cancelled
    arguments = {"name": name, "params": params.model_dump(mode="json"), "caller": caller.model_dump(), "force": force}
    run = run_deployment(DEPLOYMENT, parameters=arguments, timeout=0)
    try:
        run = wait_for(run)
    except BaseException:
        with get_client(sync_client=True) as client:
            client.set_flow_run_state(run.id, Cancelling())
        raise
    if run.state is None or not run.state.is_completed():
        raise StageFailed(f"stage '{name}' failed on the pool `gpu`: {run.state}; its log is that of run '{run.name}'")
    if entry := lock_entry(name, run):
        lock = read_lock(root)
        lock["stages"][name] = entry
        write_text(root / "dvc.lock", yaml.safe_dump(lock, sort_keys=False))
        run_dvc(["pull", name], what=f"fetching the outputs of '{name}'", root=root, on_line=logger.info)
    refuse_stale(name, root)


def describe_caller(root: Path, env: dict[str, str]) -> Caller:
    token = root / TOKEN
    if not token.exists():
        write_text(token, uuid.uuid4().hex)
    remote = subprocess.run(
        [sys.executable, "-m", "dvc", "config", "core.remote"], cwd=root, capture_output=True, text=True, check=False
    )
    lock = root / "dvc.lock"
    return Caller(
        folder=str(root),
        token=token.read_text(),
        commit=commit_of(root),
        lock=lock.read_text(encoding="utf-8") if lock.exists() else "",
        remote=bool(remote.stdout.strip()),
        env=env,
    )


def wait_for(run: FlowRun, every_seconds: float = 2.0) -> FlowRun:
    import time

    with get_client(sync_client=True) as client:
        while run.state is None or not run.state.is_final():
            time.sleep(every_seconds)
            run = client.read_flow_run(run.id)
    return run


def lock_entry(name: str, run: FlowRun) -> dict[str, Any] | None:
    """What the worker wrote to its dvc.lock; None when it worked in this folder."""
    with get_client(sync_client=True) as client:
        chosen = ArtifactFilter(flow_run_id={"any_": [run.id]}, key={"any_": [f"lock-{name}"]})
        found = client.read_artifacts(artifact_filter=chosen)
    return dict(json.loads(str(found[0].data))) if found else None


def refuse_stale(name: str, root: Path) -> None:
    """Raise if DVC here takes the stage for changed: the worker had other code or params than this folder."""
    command = [sys.executable, "-m", "dvc", "status", name, "--json"]
    status = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    changed = json.loads(status.stdout or "{}").get(name)
    if status.returncode or changed:
        raise StageFailed(f"stage '{name}' ran on the pool `gpu`, but not with what this folder holds: {changed}")
