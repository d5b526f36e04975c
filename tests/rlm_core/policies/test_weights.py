"""Weights on their way to a server, without one."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from rlm_core.policies.weights import (
    WeightsMismatch,
    link_model,
    own_slot,
    shapes_of,
    write_weights,
)


@pytest.fixture(scope="module")
def state(tiny_model: Path) -> dict[str, torch.Tensor]:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32).state_dict()


def test_a_link_follows_neither_replacing_nor_deleting_the_source(tiny_model: Path, tmp_path: Path):
    source = tmp_path / "source"
    shutil.copytree(tiny_model, source)
    link_model(source, tmp_path / "served")
    served = tmp_path / "served" / "model.safetensors"
    assert served.stat().st_ino == (source / "model.safetensors").stat().st_ino  # no second copy on disk
    size = served.stat().st_size
    (tmp_path / "new").write_bytes(b"x")
    (tmp_path / "new").rename(source / "model.safetensors")
    shutil.rmtree(source)
    assert served.stat().st_size == size


def test_a_state_dict_is_written_as_served(tiny_model: Path, state: dict[str, torch.Tensor], tmp_path: Path):
    """float32 master weights become bfloat16, and the tied head, which the model's files leave out, is left out."""
    assert "lm_head.weight" in state
    write_weights(state, tmp_path / "w", like=tiny_model, dtype="bfloat16")
    written = load_file(tmp_path / "w" / "model.safetensors")
    assert {name: tuple(t.shape) for name, t in written.items()} == shapes_of(tiny_model)
    assert "lm_head.weight" not in written
    assert all(t.dtype == torch.bfloat16 and torch.equal(t, state[n].bfloat16()) for n, t in written.items())
    assert [p.name for p in tmp_path.iterdir()] == ["w"]


def test_a_folder_may_be_in_other_shards(tiny_model: Path, tmp_path: Path):
    """Two shards instead of one file: the same names and shapes."""
    tensors = load_file(tiny_model / "model.safetensors")
    names = sorted(tensors)
    parts = {"a.safetensors": names[:3], "b.safetensors": names[3:]}
    other = tmp_path / "other"
    other.mkdir()
    for file, part in parts.items():
        save_file({n: tensors[n] for n in part}, other / file)
    index = {"weight_map": {n: file for file, part in parts.items() for n in part}}
    (other / "model.safetensors.index.json").write_text(json.dumps(index))
    write_weights(other, tmp_path / "w", like=tiny_model, dtype="bfloat16")
    assert sorted(p.name for p in (tmp_path / "w").iterdir()) == [*sorted(parts), "model.safetensors.index.json"]
    assert shapes_of(tmp_path / "w") == shapes_of(tiny_model)


def test_what_does_not_fit_is_refused_and_leaves_nothing(
    tiny_model: Path, state: dict[str, torch.Tensor], tmp_path: Path
):
    cases: list[tuple[dict[str, Any], str]] = [
        ({k: v for k, v in state.items() if "layers.0" not in k}, r"missing 11 \(e.g. model.layers.0"),
        ({**state, "lora_A": torch.zeros(1)}, r"unknown 1 \(e.g. lora_A\)"),
        ({**state, "model.norm.weight": torch.zeros(7)}, r"of another shape 1 \(e.g. model.norm.weight\)"),
    ]
    for broken, says in cases:
        with pytest.raises(WeightsMismatch, match=says):
            write_weights(broken, tmp_path / "w", like=tiny_model, dtype="bfloat16")
    assert list(tmp_path.iterdir()) == []


def test_slots_are_taken_in_order_and_again_when_free(tmp_path: Path):
    with own_slot(tmp_path) as first, own_slot(tmp_path) as second:
        assert (first.name, second.name) == ("slot-0", "slot-1")
        (first / "file").write_text("x")
    with own_slot(tmp_path) as again:
        assert again.name == "slot-0"
        assert list(again.iterdir()) == []


def test_what_a_killed_process_left_is_reused(tmp_path: Path):
    code = """
import os, signal, sys
from pathlib import Path
from rlm_core.policies.weights import own_slot
with own_slot(Path(sys.argv[1])) as folder:
    (folder / "left").write_text("x")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)]).returncode == -9
    assert (tmp_path / "slot-0" / "left").exists()
    with own_slot(tmp_path) as folder:
        assert folder.name == "slot-0"
        assert list(folder.iterdir()) == []
