"""The objective with hand-computed numbers, its invariants through a real model, and equality with TRL."""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import MethodType, SimpleNamespace
from typing import Any

import pytest
import torch
from pytest import approx

from rlm_core.grpo import accumulate_gradients, group_advantages, policy_loss, turn_samples
from rlm_core.grpo.objective import k3, turn_loss
from rlm_core.params import GrpoParams
from rlm_core.records import Rollout, TurnSample


def logs(*values: float) -> torch.Tensor:
    return torch.tensor([math.log(v) for v in values], dtype=torch.float64)


def test_a_turn_is_the_mean_of_its_clipped_tokens():
    # ratios 1.0, 1.5, 0.5 at A = 2: min(2, 2) = 2 | min(3, 1.2 * 2) = 2.4 | min(1, 0.8 * 2) = 1; mean 1.8
    logp, old = logs(0.2, 0.3, 0.1), logs(0.2, 0.2, 0.2)
    assert turn_loss(logp, old, 2.0).item() == approx(-1.8)
    # A = -2: min(-2, -2) | min(-3, -2.4) = -3 | min(-1, -1.6) = -1.6; mean -2.2
    assert turn_loss(logp, old, -2.0).item() == approx(2.2)


def test_the_clip_may_be_asymmetric():
    # ratio 1.5: clipped at 1 + 0.4 for A = 1; ratio 0.5 at A = -1: clipped at 1 - 0.1, so min(-0.5, -0.9)
    assert turn_loss(logs(0.3), logs(0.2), 1.0, clip_high=0.4).item() == approx(-1.4)
    assert turn_loss(logs(0.1), logs(0.2), -1.0, clip_low=0.1).item() == approx(0.9)


def test_k3_by_hand():
    # ref / p = 2: 2 - ln 2 - 1; equal: 0
    assert k3(logs(0.2, 0.3), logs(0.4, 0.3)).tolist() == approx([1 - math.log(2), 0.0])
    # ratio 1, A 1, beta 0.5: -1 + 0.5 * (1 - ln 2)
    loss = turn_loss(logs(0.2), logs(0.2), 1.0, ref_T=logs(0.4), beta=0.5)
    assert loss.item() == approx(-1 + 0.5 * (1 - math.log(2)))


def test_the_gradient_of_an_on_policy_token_is_minus_a_grad_logp():
    logp = logs(0.2, 0.4).requires_grad_()
    turn_loss(logp, logp.detach(), 3.0).backward()  # type: ignore[no-untyped-call]
    assert logp.grad is not None and logp.grad.tolist() == approx([-1.5, -1.5])  # -A / 2 tokens


# --- invariants through a model -----------------------------------------------------------------


def tree_of(samples: list[TurnSample], children: tuple[Rollout, ...] = (), id: str = "r") -> Rollout:
    return (
        Rollout.from_dict(
            {
                "id": id,
                "turns": [
                    {
                        "text": "x",
                        "prompt_ids": list(s.prompt_ids),
                        "completion_ids": list(s.completion_ids),
                        "logprobs": list(s.logprobs),
                    }
                    for s in samples
                ],
            }
        )
        if not children
        else replace(tree_of(samples, id=id), children=children)
    )


@pytest.mark.parametrize("packing", ["none", "tree"])
def test_k_identical_children_give_the_gradient_of_one(kit: SimpleNamespace, packing: str):
    model = kit.build_model("llama")
    root, child = kit.random_samples(0)[:2], kit.random_samples(1)[:3]
    found = []
    for copies in (1, 3):
        tree = tree_of(root, tuple(tree_of(child, id=f"c{k}") for k in range(copies)))
        samples = turn_samples([tree], [-0.6])
        found.append(kit.loss_and_gradient(model, policy_loss(model, samples, packing=packing)))
    assert found[1][0] == approx(found[0][0], rel=1e-5)
    assert kit.relative(found[1][1], found[0][1]) < 1e-5


def test_equal_rewards_give_exactly_no_gradient_even_with_kl(kit: SimpleNamespace):
    model = kit.build_model("llama")
    trees = [tree_of(kit.random_samples(seed)[:2]) for seed in range(3)]
    samples = turn_samples(trees, group_advantages([0.4, 0.4, 0.4]))
    assert samples == []
    loss = policy_loss(model, samples, GrpoParams(beta=0.1))
    loss.backward()  # type: ignore[no-untyped-call]
    assert loss.item() == 0.0 and all(p.grad is None or not p.grad.any() for p in model.parameters())
    assert accumulate_gradients(model, samples).num_passes == 0


@pytest.mark.parametrize("packing", ["none", "chain", "tree"])
def test_zero_weight_padding_changes_nothing(kit: SimpleNamespace, packing: str):
    model = kit.build_model("llama")
    samples = kit.random_samples(2)
    padding = [replace(s, weight=0.0, advantage=9.0) for s in kit.random_samples(3)]
    plain = kit.loss_and_gradient(model, policy_loss(model, samples, packing=packing))
    padded = kit.loss_and_gradient(model, policy_loss(model, [*padding, *samples], packing=packing))
    assert padded[0] == plain[0] and torch.equal(padded[1], plain[1])


def test_splitting_a_turn_in_two_rows_by_tokens_changes_nothing(kit: SimpleNamespace):
    model = kit.build_model("llama")
    whole = TurnSample([1, 2, 3], [4, 5, 6, 7], [-3.5, -3.0, -4.0, -3.9], 1.0, 0.8)
    head = TurnSample([1, 2, 3], [4], [-3.5], 1.0, 0.2)
    tail = TurnSample([1, 2, 3, 4], [5, 6, 7], [-3.0, -4.0, -3.9], 1.0, 0.6)
    plain = kit.loss_and_gradient(model, policy_loss(model, [whole], packing="none"))
    split = kit.loss_and_gradient(model, policy_loss(model, [head, tail], packing="tree"))
    assert split[0] == approx(plain[0], rel=1e-5) and kit.relative(split[1], plain[1]) < 1e-5


def test_temperature_divides_the_logits(kit: SimpleNamespace):
    model = kit.build_model("llama")
    ids = torch.tensor([[1, 2, 3]])
    logp = (model(ids).logits[0, 1] / 0.5).log_softmax(-1)[3].item()
    sample = TurnSample([1, 2], [3], [logp], 2.0, 1.0)
    report = accumulate_gradients(model, [sample], GrpoParams(temperature=0.5))
    assert report.loss == approx(-2.0, rel=1e-5) and report.entropy == approx(-logp, rel=1e-5)
    assert report.logp_gap == approx(0.0, abs=1e-6) and report.ratio_outside == 0.0


def test_the_report_counts_ratios_and_clips(kit: SimpleNamespace):
    model = kit.build_model("llama")
    logp = model(torch.tensor([[1, 2]])).logits[0, -1].log_softmax(-1)
    old = [logp[5].item() - math.log(1.5), logp[6].item() - math.log(1.05)]
    samples = [TurnSample([1, 2], [5], [old[0]], 1.0, 0.5), TurnSample([1, 2], [6], [old[1]], 1.0, 0.5)]
    report = accumulate_gradients(model, samples)
    # ratios 1.5 (outside, clipped) and 1.05 (inside): loss -(1.2 + 1.05) / 2
    assert (report.ratio_outside, report.clipped) == (0.5, 0.5)
    assert report.loss == approx(-(1.2 + 1.05) / 2, rel=1e-5)
    assert (report.num_samples, report.num_scored, report.num_computed) == (2, 2, 4)  # 1 2 shared, 5, 6


def test_kl_needs_a_reference_and_carries_the_weight(kit: SimpleNamespace):
    model = kit.build_model("llama")
    samples = kit.random_samples(4)
    config = GrpoParams(beta=0.3)
    with pytest.raises(ValueError, match="pass a frozen copy of the model as `reference`"):
        policy_loss(model, samples, config)
    reference = copy.deepcopy(model)
    plain = policy_loss(model, samples).item()
    assert policy_loss(model, samples, config, reference=reference).item() == approx(plain, rel=1e-6)
    with torch.no_grad():
        reference.lm_head.weight.mul_(1.3)
    with_kl = policy_loss(model, samples, config, reference=reference).item()
    kl = policy_loss(model, [replace(s, advantage=0.0) for s in samples], config, reference=reference).item()
    assert kl > 0 and with_kl == approx(plain + kl, rel=1e-5)
    assert not any(p.grad is not None for p in reference.parameters())


def test_a_peft_model_is_its_own_reference(kit: SimpleNamespace):
    from peft import LoraConfig, get_peft_model

    base = kit.build_model("llama")
    frozen = copy.deepcopy(base)
    model = get_peft_model(base, LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False))
    samples = kit.random_samples(5)
    config = GrpoParams(beta=0.2)
    adapters_off = policy_loss(model, samples, config).item()
    assert adapters_off == approx(policy_loss(model, samples, config, reference=frozen).item(), rel=1e-5)


def test_bad_samples_are_named(kit: SimpleNamespace):
    model = kit.build_model("llama")
    with pytest.raises(ValueError, match="node 'n7': 1 logprobs for 2 tokens"):
        policy_loss(model, [TurnSample([1], [2, 3], [-1.0], 1.0, 1.0, "n7")])
    with pytest.raises(ValueError, match="node 'n8': needs at least one prompt"):
        policy_loss(model, [TurnSample([], [2], [-1.0], 1.0, 1.0, "n8")])


# --- TRL ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def make_trl(kit: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """A `GRPOTrainer` on a tiny model, whose `_compute_loss` is given prepared rows."""
    from datasets import Dataset
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast
    from trl import GRPOConfig, GRPOTrainer

    vocabulary = {f"t{i}": i for i in range(kit.vocabulary)}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel(vocabulary, unk_token="t0")), pad_token="t0", eos_token="t2"
    )

    def build(beta: float = 0.0) -> Any:
        folder: Path = tmp_path_factory.mktemp("trl")
        args = GRPOConfig(
            output_dir=str(folder),
            loss_type="grpo",
            beta=0.0,
            num_generations=2,
            per_device_train_batch_size=2,
            bf16=False,
            use_cpu=True,
            report_to=[],
            gradient_checkpointing=False,
            disable_dropout=True,
            use_bias_correction_kl=False,  # TRL can weight the KL by the ratio; ours is the plain k3
        )
        trainer = GRPOTrainer(
            model=kit.build_model("llama"),
            reward_funcs=lambda completions, **_: [0.0] * len(completions),
            args=args,
            train_dataset=Dataset.from_list([{"prompt": "t3"}] * 2),
            processing_class=tokenizer,
        )
        trainer.current_gradient_accumulation_steps = 1
        trainer.beta = beta  # set here: given to the constructor it would look for a reference model by name
        trainer.model.train()
        return trainer

    return build


def trl_rows(samples: list[TurnSample], advantages: list[float], reference: Any = None) -> dict[str, torch.Tensor]:
    """Left-padded prompts, right-padded completions: the keys that `GRPOTrainer._compute_loss` reads."""
    width_p = max(len(s.prompt_ids) for s in samples)
    width_c = max(len(s.completion_ids) for s in samples)

    def pad(values: Any, width: int, left: bool) -> list[float]:
        gap = [0] * (width - len(values))
        return [*gap, *values] if left else [*values, *gap]

    rows = {
        "prompt_ids": torch.tensor([pad(s.prompt_ids, width_p, True) for s in samples]),
        "prompt_mask": torch.tensor([pad([1] * len(s.prompt_ids), width_p, True) for s in samples]),
        "completion_ids": torch.tensor([pad(s.completion_ids, width_c, False) for s in samples]),
        "completion_mask": torch.tensor([pad([1] * len(s.completion_ids), width_c, False) for s in samples]),
        "old_per_token_logps": torch.tensor([pad(s.logprobs, width_c, False) for s in samples]),
        "advantages": torch.tensor(advantages),
        "num_items_in_batch": torch.tensor(sum(len(s.completion_ids) for s in samples)),
    }
    if reference is not None:
        ref = torch.zeros(len(samples), width_c)
        for index, s in enumerate(samples):
            logits = reference(torch.tensor([[*s.prompt_ids, *s.completion_ids]])).logits[0]
            scored = logits[len(s.prompt_ids) - 1 : -1].log_softmax(-1)
            ref[index, : len(s.completion_ids)] = scored[range(len(s.completion_ids)), list(s.completion_ids)].detach()
        rows["ref_per_token_logps"] = ref
    return rows


def gaps_to_trl(
    kit: SimpleNamespace, trainer: Any, rows: dict[str, torch.Tensor], ours: Callable[..., Any]
) -> dict[str, float]:
    """The larger relative difference of loss and gradient from TRL's, a packing."""
    theirs, their_gradient = kit.loss_and_gradient(trainer.model, trainer._compute_loss(trainer.model, rows))
    gaps = {}
    for packing in ("none", "chain", "tree"):
        loss, gradient = kit.loss_and_gradient(trainer.model, ours(packing))
        gaps[packing] = max(abs(loss - theirs) / abs(theirs), float(kit.relative(gradient, their_gradient)))
    return gaps


def test_one_turn_a_rollout_equals_trl(kit: SimpleNamespace, make_trl: Callable[..., Any]):
    """n rollouts of one turn: weights 1/n are TRL's mean over rows."""
    trainer = make_trl(beta=0.0)
    samples = kit.random_samples(7)
    samples = [replace(s, weight=1 / len(samples)) for s in samples]
    rows = trl_rows(samples, [s.advantage for s in samples])
    gaps = gaps_to_trl(kit, trainer, rows, lambda packing: policy_loss(trainer.model, samples, packing=packing))
    assert max(gaps.values()) < 1e-5, gaps


def test_folded_weights_equal_trl(kit: SimpleNamespace, make_trl: Callable[..., Any]):
    """Trees with children: TRL's mean over n rows, with n * weight folded into each row's advantage."""
    trainer = make_trl(beta=0.0)
    parts = kit.random_samples(8, num_rollouts=8)
    trees = [tree_of(parts[:2], (tree_of(parts[2:5], id="c0"), tree_of(parts[5:6], id="c1"))), tree_of(parts[6:9])]
    samples = turn_samples(trees, group_advantages([0.9, 0.2], scale_by_std=True))
    rows = trl_rows(samples, [s.advantage * s.weight * len(samples) for s in samples])
    gaps = gaps_to_trl(kit, trainer, rows, lambda packing: policy_loss(trainer.model, samples, packing=packing))
    assert max(gaps.values()) < 1e-5, gaps


def test_kl_equals_trl(kit: SimpleNamespace, make_trl: Callable[..., Any]):
    trainer = make_trl(beta=0.2)
    reference = kit.build_model(
        "llama"
    )  # a copy of the trainer's wrapped model would still call the original's forward
    with torch.no_grad():
        for parameter in reference.parameters():
            parameter.mul_(1.1)
    samples = kit.random_samples(9)
    samples = [replace(s, weight=1 / len(samples)) for s in samples]
    rows = trl_rows(samples, [s.advantage for s in samples], reference)
    config = GrpoParams(beta=0.2)
    gaps = gaps_to_trl(
        kit,
        trainer,
        rows,
        lambda packing: policy_loss(trainer.model, samples, config, packing, reference=reference),
    )
    assert max(gaps.values()) < 1e-5, gaps


def test_a_model_that_ignores_the_branches_is_refused(kit: SimpleNamespace):
    model, original = kit.build_model("llama"), kit.build_model("llama")

    @functools.wraps(type(model).forward)
    def forward(self: Any, **inputs: Any) -> Any:
        return original(**inputs)

    model.forward = MethodType(forward, model)
    with pytest.raises(RuntimeError, match="did not attend by the branches"):
        policy_loss(model, kit.random_samples(3), packing="tree")


def test_a_float64_model_gives_float64_numbers(kit: SimpleNamespace):
    model = kit.build_model("llama").double()  # its norms still round to float32
    samples = kit.random_samples(3)
    losses = {packing: policy_loss(model, samples, packing=packing) for packing in ("none", "chain", "tree")}
    assert {loss.dtype for loss in losses.values()} == {torch.float64}
    gradients = {packing: kit.loss_and_gradient(model, loss)[1] for packing, loss in losses.items()}
    for packing in ("chain", "tree"):
        assert losses[packing].item() == approx(losses["none"].item(), rel=1e-6)
        assert kit.relative(gradients[packing], gradients["none"]) < 1e-6
