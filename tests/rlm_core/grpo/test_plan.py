"""The plan's figures by hand, and against a model that is really made."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from rlm_core.grpo.adapters import add_lora
from rlm_core.grpo.devices import device_named
from rlm_core.grpo.plan import GIB, Load, Shape, plan_step, shape_of, trained_parameters
from rlm_core.grpo.plan_text import faults, render_plan
from rlm_core.params import GrpoParams, LoraParams, Params

# The dimensions of SmolLM2-135M.
SMOL = Shape(134_515_008, 30, 30, 576, 576, 192, 1536, 49152, {"q_proj": (17280, 17280), "k_proj": (17280, 5760)})
CPU = device_named("cpu", cores=2)


def test_memory_by_hand():
    plan = plan_step(SMOL, Params(), CPU)
    assert plan.trainer["weights"] == 2 * 134_515_008 and plan.trainer["AdamW"] == 8 * 134_515_008
    assert plan.trainer["masters"] == plan.trainer["gradients"] == 4 * 134_515_008
    assert plan.trainer["reference"] == 0
    # 2 (2*576 + 3*576 + 4*192 + 4*1536) + 16*576 = 28,800 bytes a token and layer; 2,048 tokens, 30 layers
    assert plan.trainer["activations"] == 2048 * 30 * 28800
    assert plan.kv_bytes_per_token == 2 * 30 * 192 * 2 == 23040
    assert plan.kv_sequences == GIB // (23040 * 2048) == 22


def test_the_plan_is_near_what_was_measured():
    """The trainer's process alone, SmolLM2-135M, one pass of 1,504 tokens of which 896 are scored: 4.58 GiB at its peak."""
    load = Load(trees=14, turns=2, turn_tokens=32, read_tokens=16, opening_tokens=160)
    params = Params(grpo=GrpoParams(queries_per_step=1, rollouts_per_query=14))
    assert load.computed(params) == 14 * 2 * 48 + 160 == 1504 and load.sampled == 896
    assert plan_step(SMOL, params, CPU, load=load).trainer_bytes / GIB == pytest.approx(4.58, rel=0.15)
    assert plan_step(SMOL, Params(), CPU).server_bytes / GIB == pytest.approx(3.3, rel=0.1)


def test_tokens_of_the_packings_by_hand():
    load = Load(trees=4, turns=2, turn_tokens=10, read_tokens=5, opening_tokens=100)

    def computed(packing: str) -> float:
        return load.computed(Params(grpo=GrpoParams(queries_per_step=2, rollouts_per_query=2, packing=packing)))  # type: ignore[arg-type]

    assert computed("tree") == 4 * 2 * 15 + 2 * 100
    assert computed("chain") == 4 * 2 * 15 + 4 * 100
    # Rows of 115 and 130 tokens, four of each.
    assert computed("none") == 4 * (115 + 130)


@pytest.mark.parametrize("kind", ["llama", "qwen3", "gemma3-window", "qwen3.5"])
def test_a_config_is_counted_like_the_model_made_of_it(kit: SimpleNamespace, kind: str):
    model = kit.build_model(kind)
    shape = shape_of(model.config)
    assert shape.parameters == sum(p.numel() for p in model.parameters())
    assert (shape.layers, shape.full_layers) == (2, 1 if kind == "qwen3.5" else 2)
    for lora in (LoraParams(rank=4), LoraParams(rank=2, targets=("q_proj", "down_proj"))):
        adapted = add_lora(kit.build_model(kind), lora, seed=0)
        assert trained_parameters(shape, lora) == sum(p.numel() for p in adapted.parameters() if p.requires_grad)


def test_adapters_shards_and_a_reference_change_the_plan():
    def trainer(processes: int = 1, **fields: object) -> dict[str, float]:
        return plan_step(SMOL, Params(grpo=GrpoParams.model_validate(fields)), CPU, processes=processes).trainer

    lora = trainer(lora={"rank": 8, "targets": ["q_proj"]}, beta=0.1)
    assert lora["AdamW"] == 8 * 8 * (17280 + 17280) and lora["masters"] == lora["reference"] == 0
    assert trainer(beta=0.1)["reference"] == 2 * 134_515_008
    assert trainer(processes=4)["AdamW"] == trainer()["AdamW"] / 4
    # One layer's 28,800 bytes a token, and 30 inputs of 576 in bf16.
    assert trainer(gradient_checkpointing=True)["activations"] == 2048 * (28800 + 30 * 576 * 2)
    with pytest.raises(ValueError, match="no layer is named v_proj; there are q_proj, k_proj"):
        trainer(lora={"targets": ["v_proj"]})


def test_what_does_not_fit_is_said():
    big = Shape(70_000_000_000, 80, 80, 8192, 8192, 1024, 28672, 128256, {})
    h200 = device_named("h200")
    plan = plan_step(big, Params(), h200)
    assert any("shard over more processes" in fault for fault in faults(plan, h200))
    assert "too large" in render_plan(plan, big, Params(), h200, "big")
    assert faults(plan_step(SMOL, Params(), h200), h200) == []
    with pytest.raises(ValueError, match="device 'tpu' is not known; there are: cpu, rtx4090"):
        device_named("tpu")
