"""The stage `grpo` in two processes: the leader is the stage, the follower trains with it."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file

from rlm_core.files import read_json
from rlm_core.params import validate_params
from rlm_core.policies import check_model_folder, materialise_model
from tasks import grpo
from tasks.common import open_stage

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("grpo_kit", Path(__file__).with_name("test_grpo.py"))
assert spec is not None and spec.loader is not None
kit = importlib.util.module_from_spec(spec)
spec.loader.exec_module(kit)
samplers = kit.samplers  # a fixture


def launch(kind: str, folder: Path, *program: str) -> subprocess.CompletedProcess[str]:
    """Two processes of `program` in `folder`; `fsdp2` shards the weights over them."""
    command = ["torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    if kind == "fsdp2":
        config = str(ROOT / "profiles/accelerate/fsdp2.yaml")
        command = ["accelerate.commands.launch", "--config_file", config, "--num_processes", "2"]
        command += ["--main_process_port", "0"]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "RLM_LOCK_DIR": str(folder)}
    return subprocess.run(
        [sys.executable, "-m", *command, *program],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


def prepare(folder: Path, params: dict[str, Any]) -> None:
    kit.write_inputs(folder, materialise_model("tiny-random", folder=kit.MODELS, dtype="float32").resolve())
    (folder / "params.yaml").write_text(yaml.safe_dump(params))


@pytest.mark.proof
@pytest.mark.parametrize("kind", ["torchrun", "fsdp2"])
def test_two_processes_train_on_a_real_server(tmp_path: Path, kind: str):
    params = kit.params_of(eval_every=0)
    params["serve"]["compile"] = False
    prepare(tmp_path, params)
    done = launch(kind, tmp_path, "-m", "tasks.grpo")
    assert done.returncode == 0, done.stderr[-4000:]
    record = json.loads((tmp_path / "reports/training.json").read_text())
    assert [row["step"] for row in record["steps"]] == [0, 1]
    assert all(row["failed_rollouts"] == 0 and row["completion_tokens"] > 0 for row in record["steps"])
    check_model_folder(tmp_path / "models/grpo")


@pytest.mark.proof
@pytest.mark.parametrize("kind", ["torchrun", "fsdp2"])
def test_two_processes_are_killed_and_end_as_one_alone(
    tmp_path: Path, kind: str, samplers: list[Any], monkeypatch: pytest.MonkeyPatch
):
    """The stage in two processes, its leader killed in the second step and started again, against one process unbroken."""
    params = kit.params_of(select="last")
    team, alone = tmp_path / "team", tmp_path / "alone"
    for folder in (team, alone):
        folder.mkdir()
        prepare(folder, params)
    program = str(Path(__file__).with_name("two_process_stage.py"))

    killed = launch(kind, team, program, "1")
    assert killed.returncode != 0 and not (team / "models/grpo").exists()
    (checkpoints,) = (team / ".cache/grpo").glob("*/")
    assert [path.name for path in sorted(checkpoints.glob("step-*"))] == ["step-000001"], killed.stderr[-4000:]
    done = launch(kind, team, program)
    assert done.returncode == 0, done.stderr[-4000:]

    monkeypatch.chdir(alone)
    torch.set_num_threads(1)
    with open_stage("grpo", validate_params(params)) as stage:
        grpo.run(stage)
    ours, theirs = (read_json(folder / "reports/training.json") for folder in (team, alone))
    assert [row["step"] for row in ours["validation"]] == [0, 1, 2]
    for step, (a, b) in enumerate(zip(ours["steps"], theirs["steps"], strict=True)):
        # Adam's first update is one of signs: rounding decides those of the tiniest gradients.
        close = 1e-5 if step == 0 else 1e-3
        for key in ("loss", "grad_norm", "entropy", "logp_gap"):
            assert a[key] == pytest.approx(b[key], rel=close), (step, key)
        for key in ("reward_mean", "completion_tokens", "train_samples", "train_tokens_scored", "lr"):
            assert a[key] == b[key], (step, key)
    weights = [load_file(folder / "models/grpo/model.safetensors") for folder in (team, alone)]
    begun = load_file(alone / "models/sft/model.safetensors")
    names = sorted(weights[1])
    assert sorted(weights[0]) == names
    moved, apart = (
        torch.cat([(first[name] - second[name]).flatten() for name in names]).norm()
        for first, second in ((weights[1], begun), (weights[1], weights[0]))
    )
    print(json.dumps({"kind": kind, "apart": float(apart / moved)}))
    assert moved > 0 and 0 < apart / moved < 1e-4  # 0: one process had it all
