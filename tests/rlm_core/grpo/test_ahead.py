"""The weights of tokens that are one update old, with the sums beside them."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch

from rlm_core.grpo import policy_loss
from rlm_core.grpo.gradients import accumulate_gradients
from rlm_core.grpo.objective import token_terms
from rlm_core.params import GrpoParams
from rlm_core.records import TurnSample


def test_a_token_weighs_as_much_as_it_has_become_likelier_up_to_the_cap():
    # ratios to the sampler: .5, 1, 1.5, 4 -> weights .5, 1, 1.5, cap 2; loss = -weight * A, gradient the same
    old = torch.log(torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=torch.float64))
    logp = torch.log(torch.tensor([0.2, 0.3, 0.3, 0.4], dtype=torch.float64)).requires_grad_()
    advantage = torch.tensor([1.0, -2.0, 1.0, -1.0], dtype=torch.float64)
    terms = token_terms(logp, old, advantage, importance_cap=2.0)
    assert terms.loss_T.tolist() == pytest.approx([-0.5, 2.0, -1.5, 2.0])
    assert terms.ratio_T.tolist() == pytest.approx([0.5, 1.0, 1.5, 4.0])
    terms.loss_T.sum().backward()
    assert logp.grad is not None and logp.grad.tolist() == pytest.approx([-0.5, 2.0, -1.5, 2.0])


def test_the_clipped_objective_would_have_silenced_such_tokens():
    # At ratio 1.5 and A > 0 the clip leaves no gradient; the weight keeps it: the update before moved it, not this one.
    old, advantage = torch.log(torch.tensor([0.2])), torch.tensor([1.0])
    for cap, gradient in ((None, 0.0), (2.0, -1.5)):
        logp = torch.log(torch.tensor([0.3])).requires_grad_()
        token_terms(logp, old, advantage, importance_cap=cap).loss_T.sum().backward()
        assert logp.grad is not None and logp.grad.item() == pytest.approx(gradient)


def test_the_expected_gradient_is_that_of_the_newer_policy():
    """Over all of the older policy's tokens, weights untruncated: E_old[w A d logp] = E_new[A d logp], exactly."""
    torch.manual_seed(0)
    old_logits, rewards = torch.randn(6, dtype=torch.float64), torch.randn(6, dtype=torch.float64)
    new = (old_logits + 0.3 * torch.randn(6, dtype=torch.float64)).requires_grad_()
    old = old_logits.log_softmax(-1)

    terms = token_terms(new.log_softmax(-1), old, rewards, importance_cap=1e9)
    (by_weights,) = torch.autograd.grad((old.exp() * terms.loss_T).sum(), new)
    (wanted,) = torch.autograd.grad(-(new.softmax(-1) * rewards).sum(), new)
    assert torch.allclose(by_weights, wanted, atol=1e-12)


def test_with_ahead_the_report_counts_truncated_tokens_and_packing_changes_nothing(kit: SimpleNamespace):
    model = kit.build_model("llama")
    samples = kit.random_samples(3)
    config = GrpoParams(ahead=1, importance_cap=1.1)
    loss, gradient = kit.loss_and_gradient(model, policy_loss(model, samples, config, "none"))
    packed_loss, packed_gradient = kit.loss_and_gradient(model, policy_loss(model, samples, config, "tree"))
    assert packed_loss == pytest.approx(loss, rel=1e-5) and kit.relative(packed_gradient, gradient) < 1e-5
    report = accumulate_gradients(model, samples, config)
    assert 0 < report.clipped < 1 and report.clipped <= report.ratio_outside
    assert accumulate_gradients(model, samples, GrpoParams(ahead=1, importance_cap=1e9)).clipped == 0


def test_on_policy_the_weighted_and_the_clipped_objective_agree(kit: SimpleNamespace):
    """Rollouts of the current weights (the first step of a run, lag 0): ratio 1, weight 1, one gradient."""
    model = kit.build_model("llama")
    with torch.no_grad():
        logp = model(torch.tensor([[1, 5, 6, 7, 8]])).logits[0, 1:4].log_softmax(-1)
    old = [logp[i, token].item() for i, token in enumerate((6, 7, 8))]
    samples = [TurnSample([1, 5], [6, 7, 8], old, 0.7, 0.5)]
    gradients = [
        kit.loss_and_gradient(model, policy_loss(model, samples, GrpoParams(ahead=ahead), "none")) for ahead in (0, 1)
    ]
    assert math.isclose(gradients[0][0], gradients[1][0], rel_tol=1e-5)
    assert kit.relative(gradients[0][1], gradients[1][1]) < 1e-5
