"""The stage `sft` on a tiny model: the mask it trains with, what it writes, and a kill -9 in the middle."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from rlm_core.params import validate_params
from rlm_core.policies import check_model_folder, materialise_model
from tasks import sft
from tasks.common import StageError, open_stage

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / ".cache" / "models"


@pytest.fixture(scope="module")
def base() -> Path:
    return materialise_model("tiny-random", folder=MODELS).resolve()


def write_rows(folder: Path, count: int = 24) -> None:
    """Rollouts of two turns; the second prompt extends the first turn. What is to be learned: 7 follows everything."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = random.Random(0)
    rows = []
    for index in range(count):
        first = [rng.randrange(100, 400) for _ in range(12)]
        second = [*first, 7, 7, 2, *(rng.randrange(100, 400) for _ in range(6))]
        for turn, prompt in enumerate((first, second)):
            rows.append({"prompt_ids": prompt, "completion_ids": [7, 7, 2], "node_id": f"n{index}", "turn": turn,
                         "role": "root", "reward": 1.0, "query_id": f"q{index}"})  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows[:-8]), folder / "train.parquet")
    pq.write_table(pa.Table.from_pylist(rows[-8:]), folder / "val.parquet")


def params_of(base: Path, **sft_fields: Any) -> dict[str, Any]:
    fields = {"epochs": 2, "batch_size": 4, "micro_batch_size": 2, "lr": 3e-3, "save_every": 2, **sft_fields}
    return {"model": {"name": str(base), "dtype": "bfloat16"}, "sft": fields}


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path / "data" / "sft")
    torch.set_num_threads(1)
    return tmp_path


def test_the_loss_is_on_completions_only(workspace: Path, base: Path):
    from trl import SFTTrainer

    params = validate_params(params_of(base))
    train = sft._rows(workspace / "data/sft/train.parquet", merge=True)
    assert len(train) == 20  # 40 turns, two to a row
    with open_stage("sft", params) as stage:
        trainer = sft.make_trainer(stage, base, train, train[:2], workspace / "work")
        batch = next(iter(trainer.get_train_dataloader()))
        model = trainer.model
        loss = trainer.compute_loss(model, dict(batch)).item()
        theirs = SFTTrainer.compute_loss(trainer, model, dict(batch)).item()
    assert loss == pytest.approx(theirs, rel=1e-2)
    for ids, labels in zip(batch["input_ids"].tolist(), batch["labels"].tolist(), strict=True):
        assert [i for i, label in enumerate(labels) if label != -100] == [12, 13, 14, 21, 22, 23]
        assert [label for label in labels if label != -100] == [7, 7, 2, 7, 7, 2]
        assert ids[12:15] == ids[21:24] == [7, 7, 2]
    # The same by hand: mean over labelled tokens of -log p.
    logp = model(batch["input_ids"]).logits[:, :-1].float().log_softmax(-1)
    target = batch["labels"][:, 1:]
    picked = logp.gather(-1, target.clamp(min=0)[..., None])[..., 0][target != -100]
    assert loss == pytest.approx(-picked.mean().item(), rel=2e-2)


def test_the_stage_learns_and_writes_a_model_that_loads(workspace: Path, base: Path):
    with open_stage("sft", validate_params(params_of(base))) as stage:
        sft.run(stage)
    check_model_folder(Path("models/sft"))
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained("models/sft", dtype="auto")
    assert model.dtype == torch.bfloat16
    assert AutoTokenizer.from_pretrained("models/sft").chat_template
    report = json.loads(Path("reports/sft.json").read_text())
    assert len(report["steps"]) == 10  # 20 rows / 4 a step * 2 epochs
    assert report["validation"][-1]["eval_loss"] < 0.7 * report["validation"][0]["eval_loss"]
    assert report["steps"][0]["grad_norm"] > 0
    # at every evaluation, a curve: an untrained model writes no turn that the harness can act on
    assert [row["format_success"] for row in report["validation"]] == [0.0] * len(report["validation"])
    curve = stage.tracker.client.get_metric_history(stage.tracker.run_id, "format_success")
    assert [point.step for point in curve] == [row["step"] for row in report["validation"]]
    curve = stage.tracker.client.get_metric_history(stage.tracker.run_id, "loss")
    assert len(curve) == 10
    assert not list(Path(".cache/sft").glob("*/checkpoint-*"))  # nothing is left to resume


@pytest.mark.slow
def test_kill_and_run_again_gives_the_numbers_of_an_unbroken_run(workspace: Path, base: Path):
    import yaml

    def start(folder: Path) -> subprocess.Popen[bytes]:
        folder.mkdir(exist_ok=True)
        write_rows(folder / "data" / "sft")
        (folder / "params.yaml").write_text(yaml.safe_dump(params_of(base, epochs=3)))
        env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        return subprocess.Popen([sys.executable, "-m", "tasks.sft"], cwd=folder, env=env, stderr=subprocess.PIPE)

    whole = start(workspace / "whole")
    assert whole.wait(timeout=180) == 0
    cut = start(workspace / "cut")
    deadline = time.monotonic() + 120
    while not list((workspace / "cut").glob(".cache/sft/*/checkpoint-*/complete")) and time.monotonic() < deadline:
        time.sleep(0.02)
    cut.send_signal(signal.SIGKILL)
    cut.wait()
    assert not (workspace / "cut/models/sft").exists()
    again = start(workspace / "cut")
    _, log = again.communicate(timeout=180)
    assert again.returncode == 0 and b"goes on after step" in log and b"goes on in MLflow run" in log

    def curve(name: str) -> list[float]:
        steps = json.loads((workspace / name / "reports/sft.json").read_text())["steps"]
        assert [row["step"] for row in steps] == list(range(1, 16))
        return [row["loss"] for row in steps]

    assert curve("cut") == curve("whole")


def test_faults_are_named(workspace: Path, base: Path):
    with (
        open_stage("sft", validate_params(params_of(base, batch_size=5))) as stage,
        pytest.raises(StageError, match=r"sft.batch_size \(5\) must be a multiple of sft.micro_batch_size \(2\)"),
    ):
        sft.run(stage)
    with (
        open_stage("sft", validate_params({"model": {"name": "no-such-model"}})) as stage,
        pytest.raises(StageError, match=r"model.name: model 'no-such-model'"),
    ):
        sft.run(stage)
    (workspace / "data/sft/train.parquet").unlink()
    with (
        open_stage("sft", validate_params(params_of(base))) as stage,
        pytest.raises(StageError, match=r"train.parquet is missing; stage 'distill' makes it"),
    ):
        sft.run(stage)


def test_several_processes_are_refused(workspace: Path, base: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with open_stage("sft", validate_params(params_of(base))) as stage, pytest.raises(StageError, match="one process"):
        sft.run(stage)
    assert not sft.OUT.exists()
