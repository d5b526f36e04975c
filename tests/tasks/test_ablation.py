"""Cells of the ablation on a scripted sampler with real training; a sweep on a real vLLM server is a proof."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlm_core.files import read_json, read_jsonl, write_jsonl
from rlm_core.params import Variant, load_params, validate_params
from rlm_core.policies import Action
from rlm_core.records import Judgement, Rollout
from tasks import ablation, grpo
from tasks.common import StageError, open_stage
from tasks.rejection import best_trees

ROOT = Path(__file__).resolve().parents[2]

spec = importlib.util.spec_from_file_location("grpo_kit", Path(__file__).with_name("test_grpo.py"))
assert spec is not None and spec.loader is not None
kit = importlib.util.module_from_spec(spec)
spec.loader.exec_module(kit)
base, samplers = kit.base, kit.samplers  # fixtures


def settings(**fields: Any) -> dict[str, Any]:
    params = kit.params_of(refill=0)
    params["sft"] = {"batch_size": 4, "micro_batch_size": 2, "lr": 1e-3}
    params["ablation"] = {
        "seeds": [0],
        "kind": "single",
        "sampled_tokens": 300,
        "queries": 2,
        "samples_per_query": 2,
        **fields,
    }
    return params


@pytest.fixture
def project(tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    kit.write_inputs(tmp_path, base)
    rows = list(read_jsonl(Path("data/queries/train.jsonl")))
    write_jsonl(Path("data/queries/test.jsonl"), [{**row, "id": f"test-{row['id']}"} for row in rows])
    Path("params.yaml").write_text(yaml.safe_dump(settings()))
    return tmp_path


def run_cell(project: Path, variant: Variant, seed: int, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.chdir(project)
    folder = ablation.prepare_cell(load_params(), variant, seed)
    monkeypatch.chdir(folder)
    with open_stage("grpo") as stage:
        ablation.run_cell(stage)
    ablation.tidy(Path())
    monkeypatch.chdir(project)
    result: dict[str, Any] = read_json(folder / "result.json")
    return result


def test_cells_and_their_report(project: Path, samplers: list[Any], monkeypatch: pytest.MonkeyPatch):
    cells = {v: run_cell(project, v, 0, monkeypatch) for v in ("inherit", "rejection", "sft_only")}
    # A batch is 2 groups x 4 trees: the budget of 300 tokens is reached by whole batches.
    assert cells["sft_only"]["sampled_tokens"] == cells["sft_only"]["updates"] == 0
    assert cells["inherit"]["updates"] >= 1 and cells["rejection"]["updates"] >= 1
    for name in ("inherit", "rejection"):
        assert cells[name]["sampled_tokens"] >= 300
    for cell in cells.values():
        assert len(cell["questions"]) == 2 and cell["judge"] == "lexical" and cell["children_mean"] == 0
        assert all(0 <= scores["reward"] <= 1 for scores in cell["questions"].values())
    assert not any(samplers[-1].weights)  # the SFT model is served as it is
    folder = ablation.sweep_folder(load_params())
    assert not list(folder.glob("*/models/grpo")) and len(list(folder.glob("*/reports/training.json"))) == 2

    with open_stage("ablation") as stage:
        ablation.report(stage)
    record = read_json(Path("reports/ablation.json"))
    assert set(record["variants"]) == {"inherit", "rejection", "sft_only"}
    assert {(row["a"], row["b"]) for row in record["comparisons"]} == {
        ("inherit", "rejection"), ("inherit", "sft_only"), ("rejection", "sft_only")}  # fmt: skip
    assert len(record["missing"]) == 3 and len(record["conclusions"]) == 3
    assert "Ablation" in Path("reports/ablation.html").read_text()
    assert "inherit.reward" in stage.tracker.client.get_run(stage.tracker.run_id).data.metrics


@pytest.mark.proof
def test_a_cut_cell_samples_no_batch_twice(project: Path, samplers: list[Any], monkeypatch: pytest.MonkeyPatch):
    original = kit.ScriptedSampler.act
    calls = 0

    async def dies(self: Any, messages: Any, sampling: Any) -> Action:
        nonlocal calls
        calls += 1
        if calls > 20:  # a batch is 8 trees of 2 turns
            raise KeyboardInterrupt
        return await original(self, messages, sampling)

    monkeypatch.setattr(kit.ScriptedSampler, "act", dies)
    with pytest.raises(KeyboardInterrupt):
        run_cell(project, "rejection", 0, monkeypatch)
    monkeypatch.chdir(project)
    folder = ablation.sweep_folder(load_params()) / "rejection-seed0"
    (first,) = sorted(folder.glob(".cache/rejection/batches/*.json"))
    kept = first.read_text()
    calls = -10_000
    run_cell(project, "rejection", 0, monkeypatch)
    steps = read_json(folder / "reports/training.json")["steps"]
    assert steps[0] == json.loads(kept)["figures"] and [row["step"] for row in steps] == list(range(len(steps)))


def test_the_best_of_each_group_are_kept():
    trees = [Rollout(f"t{i}") for i in range(8)]
    rewards = [1.0, 0.0, 1.0, None, 0.5, 0.5, 0.5, 0.5]
    verdicts = [None if r is None else Judgement(5, 5, r) for r in rewards]
    assert [tree.id for tree in best_trees(trees, verdicts, 4)] == ["t0", "t2"]


def test_what_shapes_cells_is_in_their_folder(project: Path):
    one = ablation.sweep_folder(load_params())
    assert ablation.sweep_folder(validate_params(settings(seeds=[0, 1, 2], variants=["inherit"]))) == one
    assert ablation.sweep_folder(validate_params(settings(sampled_tokens=301))) != one
    other = settings()
    other["grpo"]["lr"] = 0.5
    assert ablation.sweep_folder(validate_params(other)) != one


def test_faults_are_named(project: Path, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(StageError, match="no multi-paper question with evidence; raise queries"):
        ablation.prepare_cell(validate_params(settings(kind="multi")), "inherit", 0)
    with pytest.raises(SystemExit):
        ablation.main(["cell", "best", "0"])
    assert "VARIANT SEED" in capsys.readouterr().err
    with open_stage("ablation") as stage, pytest.raises(StageError, match="no cell is finished"):
        ablation.report(stage)
    grpo.SFT.unlink()
    with pytest.raises(StageError, match="stage 'sft' makes it"):
        ablation.sweep_folder(load_params())


@pytest.mark.proof
def test_all_variants_on_a_real_server(project: Path):
    """Every variant, a tiny model on vLLM, a step or two each; the second run finds all cells finished."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "RLM_LOCK_DIR": str(project)}
    params = settings(sampled_tokens=500)
    params["serve"]["compile"] = False
    (project / "params.yaml").write_text(yaml.safe_dump(params))

    def start(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tasks.ablation", *arguments]
        return subprocess.run(command, cwd=project, env=env, capture_output=True, text=True, timeout=600, check=False)

    variants = load_params(project / "params.yaml").ablation.variants
    for variant in variants:
        done = start("cell", variant, "0")
        if variant == "rejection" and done.returncode == 2:  # an untrained model may find nothing to keep
            assert "rejection sampling kept no tree" in done.stderr
            continue
        assert done.returncode == 0, done.stderr[-3000:]
    again = start("cell", variants[0], "0")
    assert again.returncode == 0 and "vLLM" not in again.stderr
    assert start("report").returncode == 0
    record = json.loads((project / "reports/ablation.json").read_text())
    assert {"inherit", "no_division", "frozen_child", "root_only", "sft_only"} <= set(record["variants"])
    assert all(row["sampled_tokens"][0] >= 500 for name, row in record["variants"].items() if name != "sft_only")
