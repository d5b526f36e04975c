"""LoRA: only the adapter trains, all packings agree, merged weights say the same, and a resume goes on."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from rlm_core.grpo import policy_loss
from rlm_core.grpo.adapters import add_lora, linear_names, merged_state
from rlm_core.grpo.learner import Learner
from rlm_core.params import GrpoParams, LoraParams

LORA = LoraParams(rank=4, alpha=8)
CONFIG = GrpoParams(lora=LORA, lr=0.05, warmup_steps=0)


def trained(kit: SimpleNamespace, kind: str = "llama", steps: int = 2, **fields: Any) -> Learner:
    learner = Learner(kit.build_model(kind), CONFIG.model_copy(update=fields), seed=3)
    for step in range(steps):
        learner.update(kit.random_samples(step), step)
    return learner


def test_only_the_adapter_changes(kit: SimpleNamespace):
    learner = trained(kit)
    before = kit.build_model("llama").state_dict()
    named = dict(learner.model.get_base_model().named_parameters())
    base = {name.replace(".base_layer.", "."): p for name, p in named.items() if ".lora_" not in name}
    assert base.keys() == before.keys()
    assert all(torch.equal(p, before[name]) and not p.requires_grad for name, p in base.items())
    adapters = {name: p for name, p in named.items() if ".lora_" in name}
    # 7 linear layers (q k v o gate up down) in each of 2 layers, two matrices each
    assert len(adapters) == 7 * 2 * 2 and all(p.requires_grad and p.dtype == torch.float32 for p in adapters.values())
    assert all(p.abs().sum() > 0 for name, p in adapters.items() if ".lora_B." in name)
    assert learner.reference is None


def test_training_begins_at_the_model_as_given(kit: SimpleNamespace):
    model = kit.build_model("qwen3")
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    state = merged_state(add_lora(model, LORA, seed=0))
    assert state.keys() == before.keys()
    assert all(torch.equal(state[name], before[name]) for name in before)


def test_the_merged_model_says_what_the_adapter_says(kit: SimpleNamespace, tmp_path: Path):
    from transformers import AutoModelForCausalLM

    learner = trained(kit)
    ids = torch.arange(20)[None] % kit.vocabulary
    with torch.no_grad():
        said = learner.model(ids).logits
    learner.served.save_pretrained(tmp_path)
    merged = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32).eval()
    assert type(merged).__name__ == "LlamaForCausalLM"  # no adapter is put on top of the merge
    with torch.no_grad():
        torch.testing.assert_close(merged(ids).logits, said, rtol=1e-4, atol=1e-5)
        assert (kit.build_model("llama")(ids).logits - said).abs().max() > 0.1


def test_the_saved_adapter_on_the_base_is_the_model(kit: SimpleNamespace, tmp_path: Path):
    from peft import PeftModel

    learner = trained(kit)
    learner.served.save_pretrained(tmp_path)
    again = PeftModel.from_pretrained(kit.build_model("llama"), tmp_path / "adapter")
    ids = torch.arange(20)[None] % kit.vocabulary
    with torch.no_grad():
        torch.testing.assert_close(again(ids).logits, learner.model(ids).logits)


def test_a_merge_in_bf16_rounds_once_and_leaves_the_model_alone(kit: SimpleNamespace):
    model = add_lora(kit.build_model("llama").bfloat16(), LORA, seed=0)
    layer = model.get_base_model().model.layers[0].self_attn.q_proj
    with torch.no_grad():
        layer.lora_B["default"].weight.normal_(std=0.1)
    weight = layer.base_layer.weight.clone()
    delta = 8 / 4 * layer.lora_B["default"].weight @ layer.lora_A["default"].weight
    state = merged_state(model)
    torch.testing.assert_close(
        state["model.layers.0.self_attn.q_proj.weight"], (weight.float() + delta).bfloat16(), rtol=0, atol=0
    )
    assert torch.equal(layer.base_layer.weight, weight)


@pytest.mark.parametrize("kind", ["llama", "qwen3.5"])
def test_packings_agree(kit: SimpleNamespace, kind: str):
    learner = trained(kit, kind, steps=1, beta=0.1)
    samples = kit.random_samples(4, ephemeral=False)
    config = learner.config
    loss, gradient = kit.loss_and_gradient(learner.model, policy_loss(learner.model, samples, config, "none"))
    for packing in ("tree", "chain"):
        packed, packed_gradient = kit.loss_and_gradient(
            learner.model, policy_loss(learner.model, samples, config, packing)
        )
        assert packed == pytest.approx(loss, rel=1e-5), packing
        assert kit.relative(packed_gradient, gradient) < 1e-5, packing


def test_the_reference_is_the_model_without_its_adapter(kit: SimpleNamespace):
    learner = trained(kit, beta=0.2)
    samples = kit.random_samples(5)
    own = policy_loss(learner.model, samples, learner.config).item()
    frozen = kit.build_model("llama").eval()
    assert own == pytest.approx(policy_loss(learner.model, samples, learner.config, reference=frozen).item(), rel=1e-5)
    report = learner.update(samples, 2).report
    assert report.kl > 1e-4


def test_a_resume_goes_on_with_the_same_numbers(kit: SimpleNamespace, tmp_path: Path):
    learner = trained(kit)
    learner.save(tmp_path / "state.pt")
    whole = learner.update(kit.random_samples(2), 2)
    again = Learner(kit.build_model("llama"), CONFIG, seed=99)  # another beginning: all of it is loaded
    again.load(tmp_path / "state.pt")
    assert again.update(kit.random_samples(2), 2) == whole
    a, b = learner.weights(), again.weights()
    assert all(torch.equal(a[name], b[name]) for name in a)


def test_a_checkpoint_holds_the_adapter_and_not_its_base(kit: SimpleNamespace, tmp_path: Path):
    learner = trained(kit)
    learner.save(tmp_path / "state.pt")
    state = torch.load(tmp_path / "state.pt", weights_only=True)
    assert state["fp32"] and all(".lora_" in name for name in state["fp32"])


def test_the_same_seed_gives_the_same_adapter(kit: SimpleNamespace):
    def first(seed: int) -> torch.Tensor:
        model = add_lora(kit.build_model("llama"), LORA, seed=seed)
        return next(p for name, p in model.named_parameters() if ".lora_A." in name)

    assert torch.equal(first(1), first(1)) and not torch.equal(first(1), first(2))


def test_targets_that_cannot_be_are_named(kit: SimpleNamespace):
    model = kit.build_model("llama")
    assert linear_names(model) == ["down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj"]
    with pytest.raises(ValueError, match=r"grpo.lora.targets .*\bquery\b.* It has: down_proj, gate_proj"):
        add_lora(model, LoraParams(targets=("query",)), seed=0)
    with pytest.raises(ValueError, match="leave it out"):
        add_lora(model, LoraParams(targets=("q_proj", "lm_head")), seed=0)
