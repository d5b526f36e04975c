"""DVC as its users know it, on copies under git: experiments, queue, metrics, plots, remotes, two commands at once.

The first stages are the real ones on the smoke profile; training and evaluation are replaced by stages that take no time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from mlflow import MlflowClient

from flows.dvc import Outcome, repro

pytestmark = pytest.mark.proof


def environment_of(folder: Path) -> dict[str, str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("RLM_", "MLFLOW_", "DVC_", "GIT_"))}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment |= {f"GIT_{who}_{what}": "a@b.c" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environment["RLM_LOCK_DIR"] = str(folder / ".cache")  # not the machine's: others may train meanwhile
    environment["RLM_TRACKING_URI"] = f"sqlite:///{folder / 'mlflow.db'}"
    return environment


def run(folder: Path, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, cwd=folder, env=environment_of(folder), capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done


@pytest.fixture(scope="module")
def repository(toy_project: Path) -> Path:
    """The copy as a git repository of its own; stage `evaluate` writes metrics that follow `grpo.lr`."""
    data = yaml.safe_load((toy_project / "dvc.yaml").read_text())
    data["stages"] = {name: data["stages"][name] for name in ("papers", "grpo", "evaluate")}
    data["stages"]["grpo"] |= {
        "deps": ["data/papers"],
        "cmd": "exec python toy_stage.py grpo models/grpo",
        "outs": ["models/grpo"],
    }
    script = "import json, yaml; lr = yaml.safe_load(open('params.yaml'))['grpo']['lr']; "
    script += "json.dump({'reward': lr * 2}, open('score.json', 'w')); "
    script += "open('curve.csv', 'w').write('step,reward' + chr(10) + '0,0' + chr(10) + f'1,{lr}' + chr(10))"
    data["stages"]["evaluate"] = {
        "cmd": f'exec python -c "{script}"',
        "deps": ["models/grpo"],
        "params": ["grpo.lr"],
        "metrics": [{"score.json": {"cache": False}}],
        "plots": [{"curve.csv": {"x": "step", "y": "reward"}}],
    }
    (toy_project / "dvc.yaml").write_text(yaml.safe_dump(data, sort_keys=False))
    run(toy_project, "dvc", "config", "--unset", "core.no_scm")
    run(toy_project, "git", "init", "-q")
    run(toy_project, "dvc", "repro", "-q")
    run(toy_project, "git", "add", "-A")
    run(toy_project, "git", "commit", "-q", "-m", "base")
    return toy_project


def test_an_experiment_runs_what_its_param_changes_and_lands_in_mlflow(repository: Path) -> None:
    done = run(repository, "dvc", "exp", "run", "-n", "faster", "-S", "grpo.lr=0.25")
    assert "Stage 'papers' didn't change, skipping" in done.stdout
    assert "Running stage 'grpo'" in done.stdout
    difference = json.loads(run(repository, "dvc", "metrics", "diff", "--json").stdout)
    assert difference["score.json"]["reward"]["new"] == 0.5
    client = MlflowClient(f"sqlite:///{repository / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("rlm-forge")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id], filter_string="tags.dvc_exp_name = 'faster'")
    assert [(r.info.run_name, r.info.status, r.data.params["grpo.lr"]) for r in runs] == [("grpo", "FINISHED", "0.25")]


def test_a_queued_experiment_runs_elsewhere_and_lands_in_the_same_mlflow(repository: Path) -> None:
    run(repository, "dvc", "exp", "run", "--queue", "-n", "queued", "-S", "grpo.lr=0.75")
    run(repository, "dvc", "queue", "start")
    deadline = time.monotonic() + 400
    while "Success" not in (status := run(repository, "dvc", "queue", "status").stdout):
        assert "Failed" not in status, run(repository, "dvc", "queue", "logs", "queued", check=False).stdout[-3000:]
        assert time.monotonic() < deadline, status
        time.sleep(2)
    run(repository, "dvc", "queue", "stop", "--kill")
    shown = run(repository, "dvc", "exp", "show", "--json").stdout
    assert "queued" in shown
    client = MlflowClient(f"sqlite:///{repository / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("rlm-forge")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id], filter_string="tags.dvc_exp_name = 'queued'")
    assert [(r.info.run_name, r.data.params["grpo.lr"]) for r in runs] == [("grpo", "0.75")]


def test_plots_show_the_curve(repository: Path) -> None:
    run(repository, "dvc", "plots", "show", "-o", "plots")
    page = (repository / "plots" / "index.html").read_text()
    assert "curve.csv" in page
    assert "vega" in page


def test_outputs_travel_through_a_remote(repository: Path, tmp_path: Path) -> None:
    """A folder as remote, as on a shared disk: another clone fetches what was made here, and nothing runs there."""
    store, clone = tmp_path / "store", tmp_path / "clone"
    run(repository, "dvc", "remote", "add", "-f", "-d", "disk", str(store))
    run(repository, "dvc", "push", "-q")
    run(repository, "git", "add", "-A")
    run(repository, "git", "commit", "-q", "-m", "remote")
    run(repository, "git", "clone", "-q", str(repository), str(clone))
    run(clone, "dvc", "pull", "-q")
    assert (clone / "models" / "grpo").read_text() == (repository / "models" / "grpo").read_text()
    again = run(clone, "dvc", "repro").stdout
    assert again.count("didn't change, skipping") == 3
    assert "Running stage" not in again


def test_two_flows_at_once_wait_for_each_other(repository: Path) -> None:
    """Four processes reproduce the same stages of one folder; each ends well, the lock file is whole, nothing runs twice."""
    for out in ("data/papers", "models/grpo"):
        (repository / out).unlink(missing_ok=True)
    code = "import sys; from pathlib import Path; from flows.dvc import repro\n"
    code += "for stage in ('papers', 'grpo', 'evaluate'): print('OUTCOME', stage, repro(stage, root=Path(sys.argv[1])).value)"
    params = yaml.safe_load((repository / "params.yaml").read_text())
    params["papers"]["max_papers"] = 17
    (repository / "params.yaml").write_text(yaml.safe_dump(params))
    flows = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(repository)],
            env=environment_of(repository),
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    outputs = [flow.communicate(timeout=500)[0] for flow in flows]
    assert [flow.returncode for flow in flows] == [0, 0, 0], outputs
    ran = [line for output in outputs for line in output.splitlines() if line == "OUTCOME papers ran"]
    assert len(ran) == 1
    lock = yaml.safe_load((repository / "dvc.lock").read_text())
    assert set(lock["stages"]) == {"papers", "grpo", "evaluate"}
    assert repro("papers", root=repository) is Outcome.CACHED
