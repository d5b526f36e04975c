"""Every packing gives the loss and gradient of the per-turn rows."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from rlm_core.grpo import accumulate_gradients, forward, policy_loss
from rlm_core.grpo.branches import find_branches
from rlm_core.grpo.forward import choose_packing
from rlm_core.grpo.learner import Learner
from rlm_core.grpo.packing import plan_passes
from rlm_core.grpo.tries import build_trie, sort_key
from rlm_core.params import GrpoParams, LoraParams
from rlm_core.records import TurnSample

KINDS = ["llama", "qwen2", "qwen3", "mistral-window", "qwen2-window", "gemma3-window"]


def sample(prompt: list[int], completion: list[int], **fields: float) -> TurnSample:
    return TurnSample(prompt, completion, [-1.0] * len(completion), fields.get("a", 1.0), fields.get("w", 1.0), "n")


def test_a_trie_is_written_down_depth_first():
    # root 7 - 8 - 5 - 6
    #            \ 9
    trie = build_trie([[7, 8, 5, 6], [7, 8, 9]])
    assert trie.tokens_N.tolist() == [7, 8, 5, 6, 9]
    assert trie.depths_N.tolist() == [0, 1, 2, 3, 2]
    assert trie.ends_N.tolist() == [5, 5, 4, 4, 5]
    assert [p.tolist() for p in trie.paths_S] == [[0, 1, 2, 3], [0, 1, 4]]


def test_a_trie_of_sequences_that_share_nothing_is_a_forest():
    trie = build_trie(sorted([[9], [1, 2]], key=sort_key))
    assert trie.tokens_N.tolist() == [1, 2, 9] and trie.ends_N.tolist() == [2, 2, 3]


def test_branches_are_the_stretches_between_forks():
    # 7 8 { 5 6 | 9 { 1 | 2 3 } }
    trie = build_trie([[7, 8, 5, 6], [7, 8, 9, 1], [7, 8, 9, 2, 3]])
    branches = find_branches(trie.depths_N, trie.ends_N)
    assert branches.lengths == [2, 2, 1, 1, 2]
    assert branches.ancestors == [(), (0,), (0,), (0, 2), (0, 2)]
    assert branches.mask(0, None, torch.device("cpu")) is None  # plain causal
    seen = branches.mask(4, None, torch.device("cpu"))  # tokens 2 3 see 7 8 9 and themselves
    assert seen is not None and seen.int().tolist() == [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]
    near = branches.mask(4, 2, torch.device("cpu"))  # a window of 2: itself and the one before
    assert near is not None and near.int().tolist() == [[0, 0, 1, 1, 0], [0, 0, 0, 1, 1]]


def test_two_trees_in_one_pass_are_two_roots():
    trie = build_trie([[1, 2], [9, 8, 7]])
    branches = find_branches(trie.depths_N, trie.ends_N)
    assert (branches.lengths, branches.ancestors) == ([2, 3], [(), ()])


def test_passes_compute_shared_tokens_once():
    opening = list(range(10))
    rows = [sample([*opening, 20 + i], [30]) for i in range(4)]
    assert [p.num_tokens for p in plan_passes(rows, "none", 1000)] == [4 * 12]
    assert [p.num_tokens for p in plan_passes(rows, "tree", 1000)] == [10 + 4 * 2]
    # At 14 tokens: the opening and two branches (10 + 2 * 2), twice.
    assert [p.num_tokens for p in plan_passes(rows, "tree", 14)] == [14, 14]
    # A row longer than the bound still goes through, alone.
    assert [p.num_tokens for p in plan_passes(rows, "tree", 3)] == [12] * 4


def test_chains_join_only_exact_extensions():
    first = sample([1, 2], [3, 4])
    second = sample([1, 2, 3, 4, 5], [6])
    fork = sample([1, 2, 3, 9], [6])  # forks inside the first completion
    branch = sample([1, 2, 3, 4, 5, 7], [8])  # extends the first, but the second took its place
    (work,) = plan_passes([fork, branch, second, first], "chain", 1000)
    assert sorted(row.tolist() for row in work.rows) == [
        [1, 2, 3, 4, 5, 6],
        [1, 2, 3, 4, 5, 7, 8],
        [1, 2, 3, 9, 6],
    ]


def test_the_same_turn_twice_is_no_chain():
    (work,) = plan_passes([sample([1, 2], [3]), sample([1, 2], [3])], "chain", 1000)
    assert len(work.rows) == 2
    (work,) = plan_passes([sample([1, 2], [3]), sample([1, 2], [3])], "tree", 1000)
    assert work.num_tokens == 3 and work.place_T.tolist() == [0, 0]


@pytest.mark.parametrize("attention", ["branches", "sdpa", "eager"])
@pytest.mark.parametrize("kind", KINDS)
def test_packings_agree_in_loss_and_gradient(
    kit: SimpleNamespace, kind: str, attention: str, monkeypatch: pytest.MonkeyPatch
):
    model = kit.build_model(kind, "eager" if attention == "eager" else "sdpa")
    if attention == "sdpa":  # the dense mask, as on a GPU
        monkeypatch.setattr(forward, "_attends_by_branches", lambda *_: False)
    assert choose_packing(model, "auto") == "tree"
    for seed, ephemeral in ((0, True), (1, False)):
        samples = kit.random_samples(seed, ephemeral=ephemeral)
        config = GrpoParams(max_tokens_per_pass=4096)
        loss, gradient = kit.loss_and_gradient(model, policy_loss(model, samples, config, "none"))
        for packing in ("tree", "chain"):
            packed, packed_gradient = kit.loss_and_gradient(model, policy_loss(model, samples, config, packing))
            assert packed == pytest.approx(loss, rel=1e-5), packing
            assert kit.relative(packed_gradient, gradient) < 1e-5, packing


def test_none_equals_rows_one_by_one_without_any_packing(kit: SimpleNamespace):
    """The reference itself against plain forward calls: no padding, no positions, no mask given."""
    model = kit.build_model("llama")
    samples = kit.random_samples(3)
    total = torch.zeros(())
    for s in samples:
        ids = torch.tensor([[*s.prompt_ids, *s.completion_ids]])
        logp = model(ids).logits[0, len(s.prompt_ids) - 1 : -1].log_softmax(-1)
        logp = logp[torch.arange(len(s.completion_ids)), torch.tensor(s.completion_ids)]
        rho = (logp - torch.tensor(s.logprobs)).exp()
        per_token = -torch.minimum(rho * s.advantage, rho.clamp(0.8, 1.2) * s.advantage)
        total = total + s.weight * per_token.mean()
    loss, gradient = kit.loss_and_gradient(model, total)
    packed, packed_gradient = kit.loss_and_gradient(model, policy_loss(model, samples, packing="none"))
    assert packed == pytest.approx(loss, rel=1e-5)
    assert kit.relative(packed_gradient, gradient) < 1e-5


@pytest.mark.parametrize("packing", ["none", "chain", "tree"])
def test_pass_size_and_row_order_change_nothing(kit: SimpleNamespace, packing: str):
    model = kit.build_model("qwen3")
    samples = kit.random_samples(4, num_rollouts=8)
    loss, gradient = kit.loss_and_gradient(model, policy_loss(model, samples, packing=packing))
    order = np.random.default_rng(0).permutation(len(samples))
    small = GrpoParams().model_copy(update={"max_tokens_per_pass": 40})
    model.zero_grad()
    report = accumulate_gradients(model, [samples[i] for i in order], small, packing)
    accumulated = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
    assert report.num_passes > 3 and report.num_samples == len(samples) and report.packing == packing
    assert report.loss == pytest.approx(loss, rel=1e-5)
    assert kit.relative(accumulated, gradient) < 1e-5


def test_linear_attention_gets_chain_and_says_so(kit: SimpleNamespace, caplog: pytest.LogCaptureFixture):
    model = kit.build_model("qwen3.5")
    with caplog.at_level(logging.WARNING):
        assert choose_packing(model, "auto") == "chain"
    assert "linear_attention" in caplog.text
    samples = kit.random_samples(5, ephemeral=False)
    loss, gradient = kit.loss_and_gradient(model, policy_loss(model, samples, packing="none"))
    for packing in ("chain", "tree"):  # tree falls back to chain
        packed, packed_gradient = kit.loss_and_gradient(model, policy_loss(model, samples, packing=packing))
        assert packed == pytest.approx(loss, rel=1e-5)
        assert kit.relative(packed_gradient, gradient) < 1e-5


def test_tree_computes_a_fraction_of_the_tokens(kit: SimpleNamespace):
    samples = kit.random_samples(6, num_rollouts=8)
    counts = {p: sum(w.num_tokens for w in plan_passes(samples, p, 4096)) for p in ("none", "chain", "tree")}
    assert counts["tree"] < counts["chain"] <= counts["none"]


def test_an_unknown_packing_is_named():
    with pytest.raises(ValueError, match="'tree', 'chain' or 'none'"):
        plan_passes([], "forest", 10)


@pytest.mark.parametrize("kind", ["llama", "mistral-window", "qwen2-window", "gemma3-window"])
def test_flex_attention_is_given_the_same_mask(kit: SimpleNamespace, kind: str):
    """FlexAttention's rule, asked for every pair of tokens, and its list of blocks, say what the dense mask says."""
    dense_model, flex_model = kit.build_model(kind, "sdpa"), kit.build_model(kind, "flex_attention")
    (work,) = plan_passes(kit.random_samples(11, num_rollouts=40), "tree", 4096)
    assert work.ends is not None and work.depths is not None and work.num_tokens > 256  # several blocks of 128
    ends, depths = torch.from_numpy(work.ends), torch.from_numpy(work.depths)
    dense, flex = (forward._ancestor_masks(m, ends, depths) for m in (dense_model, flex_model))
    pairs = [(dense[name], flex[name]) for name in dense] if isinstance(dense, dict) else [(dense, flex)]
    for seen, blocks in pairs:
        index = torch.arange(work.num_tokens)
        zero = torch.tensor(0)
        asked = blocks.mask_mod(zero, zero, index[:, None], index[None, :])
        assert torch.equal(asked, seen[0, 0])
        # A block that is left out has no pair that is seen.
        size = blocks.BLOCK_SIZE[0]
        padded = torch.nn.functional.pad(seen[0, 0], (0, -work.num_tokens % size, 0, -work.num_tokens % size))
        by_block = padded.unflatten(0, (-1, size)).unflatten(2, (-1, size)).any(dim=3).any(dim=1)
        assert torch.equal(blocks.to_dense()[0, 0].bool(), by_block)
        assert not by_block.all()


def test_a_tiny_qwen35_trains_a_step_with_chain_as_with_none(kit: SimpleNamespace):
    """Adam's first step has the size of the learning rate whatever the gradient: the gradients are compared besides."""
    samples = kit.random_samples(12, ephemeral=False)
    learners = {}
    for packing in ("none", "chain"):
        learners[packing] = Learner(kit.build_model("qwen3.5"), GrpoParams(packing=packing, lr=1e-3, warmup_steps=0))
    before = kit.build_model("qwen3.5").state_dict()
    updates = {packing: learner.update(samples, 0) for packing, learner in learners.items()}
    assert updates["chain"].report.packing == "chain"
    assert updates["chain"].report.num_computed < updates["none"].report.num_computed
    assert updates["chain"].grad_norm == pytest.approx(updates["none"].grad_norm, rel=1e-5)
    states = {packing: learner.model.state_dict() for packing, learner in learners.items()}
    change = torch.cat([(states["none"][name] - before[name]).flatten() for name in before])
    packed = torch.cat([(states["chain"][name] - before[name]).flatten() for name in before])
    assert change.abs().max() > 5e-4 and kit.relative(packed, change) < 1e-2


def test_a_large_group_is_split_at_branches(kit: SimpleNamespace):
    """Rollouts under a budget of a fifth of their tree: no sample is cut, and the sum is still that of the rows."""
    model, samples = kit.build_model("qwen3"), kit.random_samples(13, num_rollouts=120)
    (whole,) = plan_passes(samples, "tree", 100_000)
    budget = max(256, whole.num_tokens // 5)
    passes = plan_passes(samples, "tree", budget)
    assert 3 < len(passes) < 8 and all(work.num_tokens <= budget for work in passes)
    again = sum(work.num_tokens for work in passes) - whole.num_tokens
    assert 0 < again < 0.1 * whole.num_tokens  # the openings of all passes but the first
    config = GrpoParams(max_tokens_per_pass=budget)
    loss, gradient = kit.loss_and_gradient(model, policy_loss(model, samples, config, "none"))
    split, split_gradient = kit.loss_and_gradient(model, policy_loss(model, samples, config, "tree"))
    assert split == pytest.approx(loss, rel=1e-5)
    assert kit.relative(split_gradient, gradient) < 1e-5


@pytest.mark.parametrize(
    ("kind", "lora"), [("llama", None), ("gemma3-window", None), ("qwen3.5", None), ("llama", LoraParams())]
)
def test_recomputed_layers_give_the_same_update(kit: SimpleNamespace, kind: str, lora: LoraParams | None):
    samples = kit.random_samples(14, ephemeral=False)
    config = GrpoParams(lora=lora, beta=0.1, warmup_steps=0)
    kept = Learner(kit.build_model(kind), config)
    again = Learner(kit.build_model(kind), config.model_copy(update={"gradient_checkpointing": True}))
    calls = 0
    layer = again.model.get_base_model() if lora else again.model
    original = layer.get_decoder().layers[0].mlp.forward

    def counted(*arguments: object) -> object:
        nonlocal calls
        calls += 1
        return original(*arguments)

    layer.get_decoder().layers[0].mlp.forward = counted
    first, second = kept.update(samples, 0), again.update(samples, 0)
    assert calls == (3 if lora else 2)  # forward, once more on the way back, and as the reference with the adapter off
    assert second.grad_norm == pytest.approx(first.grad_norm, rel=1e-5)
    assert second.report.loss == pytest.approx(first.report.loss, abs=1e-6)
