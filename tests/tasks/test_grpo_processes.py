"""The stage `grpo` in two processes: the leader is the stage, the follower trains with it."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from rlm_core.policies import check_model_folder, materialise_model

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("grpo_kit", Path(__file__).with_name("test_grpo.py"))
assert spec is not None and spec.loader is not None
kit = importlib.util.module_from_spec(spec)
spec.loader.exec_module(kit)


@pytest.mark.proof
@pytest.mark.parametrize("launch", ["torchrun", "fsdp2"])
def test_two_processes_train_on_a_real_server(tmp_path: Path, launch: str):
    base = materialise_model("tiny-random", folder=ROOT / ".cache" / "models", dtype="float32").resolve()
    kit.write_inputs(tmp_path, base)
    params = kit.params_of(eval_every=0)
    params["serve"]["compile"] = False
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params))
    command = ["torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    if launch == "fsdp2":
        config = str(ROOT / "profiles/accelerate/fsdp2.yaml")
        command = [
            "accelerate.commands.launch",
            "--config_file",
            config,
            "--num_processes",
            "2",
            "--main_process_port",
            "0",
        ]
    command = [sys.executable, "-m", *command, "-m", "tasks.grpo"]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "RLM_LOCK_DIR": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    record = json.loads((tmp_path / "reports/training.json").read_text())
    assert [row["step"] for row in record["steps"]] == [0, 1]
    assert all(row["failed_rollouts"] == 0 and row["completion_tokens"] > 0 for row in record["steps"])
    check_model_folder(tmp_path / "models/grpo")
