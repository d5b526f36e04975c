"""Model folders: what is made, what is refused and why."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from rlm_core.policies import ModelError, check_model_folder, materialise_model, models, stop_ids

MODELS = Path(__file__).resolve().parents[3] / ".cache" / "models"


def copy_of(model: Path, target: Path) -> Path:
    shutil.copytree(model, target)
    return target


def test_the_tiny_model_is_small_whole_and_the_same_everywhere(tiny_model: Path, tmp_path: Path):
    config = json.loads((tiny_model / "config.json").read_text())
    assert (config["architectures"], config["num_hidden_layers"], config["hidden_size"]) == (
        ["Qwen3ForCausalLM"],
        2,
        64,
    )
    assert stop_ids(tiny_model) == (config["eos_token_id"],) == (2,)
    again = materialise_model("tiny-random", folder=tmp_path)
    assert again.name == tiny_model.name
    assert (again / "model.safetensors").read_bytes() == (tiny_model / "model.safetensors").read_bytes()
    assert [p.name for p in tmp_path.iterdir()] == [again.name]  # nothing half made is left


def test_a_finished_folder_is_taken_as_it_is(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def not_again(*_: Any) -> None:
        raise AssertionError("made again")

    target = copy_of(tiny_model, tmp_path / tiny_model.name)
    monkeypatch.setattr(models, "_make_tiny", not_again)
    assert materialise_model("tiny-random", folder=tmp_path) == target


def test_what_fails_half_way_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def fail(out: Path, dtype: str) -> None:
        (out / "config.json").write_text("{}")
        raise OSError("disk full")

    monkeypatch.setattr(models, "_make_tiny", fail)
    with pytest.raises(OSError, match="disk full"):
        materialise_model("tiny-random", folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_smollm2_answers_through_its_chat_template(tokenizer: Any):
    """De-quantised weights that were mixed up would still load; they would not know this."""
    import torch
    from transformers import AutoModelForCausalLM

    from rlm_core.policies import ChatRenderer, load_tokenizer

    folder = materialise_model("smollm2-135m", folder=MODELS)
    config = json.loads((folder / "config.json").read_text())
    assert config["architectures"] == ["LlamaForCausalLM"]
    assert "quantization_config" not in config
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    renderer = ChatRenderer(load_tokenizer(folder))
    prompt = renderer.prompt_ids([{"role": "user", "content": "What is the capital of France?"}])
    ids = model.generate(torch.tensor([prompt]), max_new_tokens=12, do_sample=False)[0, len(prompt) :].tolist()
    assert renderer.decode(ids) == "The capital of France is Paris."
    assert ids[-1] == renderer.end_of_turn_id


def broken(name: str, tiny_model: Path, folder: Path) -> Path:
    """A copy of the model with one thing wrong."""
    copy = copy_of(tiny_model, folder / "model")
    weights = copy / "model.safetensors"
    match name:
        case "no config":
            (copy / "config.json").unlink()
        case "config not json":
            (copy / "config.json").write_text("{")
        case "config of something else":
            (copy / "config.json").write_text("{}")
        case "no weights":
            weights.unlink()
        case "cut weights":
            weights.write_bytes(weights.read_bytes()[:-100])
        case "not weights":
            weights.write_bytes(b"version https://git-lfs.github.com/spec/v1\n" * 3)
        case "pickled weights":
            weights.rename(copy / "pytorch_model.bin")
        case "missing shard":
            index = {"weight_map": {"a": "model-1.safetensors", "b": "model.safetensors"}}
            (copy / "model.safetensors.index.json").write_text(json.dumps(index))
        case "no tokenizer":
            (copy / "tokenizer.json").unlink()
        case "no chat template":
            (copy / "chat_template.jinja").unlink()
        case "adapter":
            (copy / "config.json").rename(copy / "adapter_config.json")
    return copy


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("no config", "holds no config.json"),
        ("config not json", "config.json cannot be read"),
        ("config of something else", "names no 'model_type'"),
        ("no weights", "holds no weights"),
        ("cut weights", "cut short"),
        ("not weights", "not a safetensors file"),
        ("pickled weights", "must be safetensors"),
        ("missing shard", r"missing: \['model-1.safetensors'\]"),
        ("no tokenizer", "holds no tokenizer"),
        ("no chat template", "no chat template"),
        ("adapter", "merge it into its base model"),
    ],
)
def test_a_folder_that_cannot_be_used_is_refused_with_the_reason(
    tiny_model: Path, tmp_path: Path, name: str, says: str
):
    copy = broken(name, tiny_model, tmp_path)
    with pytest.raises(ModelError, match=says) as failure:
        materialise_model(str(copy))
    assert str(copy) in str(failure.value)


def test_a_good_folder_is_returned(tiny_model: Path):
    assert materialise_model(str(tiny_model)) == tiny_model == check_model_folder(tiny_model)


def test_names_that_are_nothing(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelError, match="is a file"):
        materialise_model(str(tmp_path / "file"))
    with pytest.raises(ModelError, match="no such folder, and not a hub id"):
        materialise_model(str(tmp_path / "nothing"))
    with pytest.raises(ModelError, match="no such folder, and not a hub id"):
        materialise_model("smollm2")


def test_a_hub_id_without_a_network_says_what_to_do_instead(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    import huggingface_hub
    from huggingface_hub.errors import LocalEntryNotFoundError

    def offline(name: str, **_: Any) -> str:
        raise LocalEntryNotFoundError(f"cannot reach the hub for {name}")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
    with pytest.raises(ModelError, match=r"(?s)'models/sft' is no folder here.*cannot be fetched.*smollm2-135m"):
        materialise_model("models/sft")


def test_a_hub_model_is_fetched_and_checked(monkeypatch: pytest.MonkeyPatch, tiny_model: Path):
    import huggingface_hub

    asked: list[Any] = []
    monkeypatch.setattr(
        huggingface_hub, "snapshot_download", lambda name, **kw: asked.append((name, kw)) or str(tiny_model)
    )
    assert materialise_model("Owner/Model-1B") == tiny_model
    assert asked[0][0] == "Owner/Model-1B"
    assert "*.safetensors" in asked[0][1]["allow_patterns"]
