"""The per-token objective, on tensors and weights alone: no model, no files.

Formula, for a token with log-probability `logp` under the current weights, `old` as it was sampled, advantage A::

    rho   = exp(logp - old)
    token = -min(rho * A, clip(rho, 1 - clip_low, 1 + clip_high) * A)  +  beta * (exp(d) - d - 1),   d = ref - logp
    turn  = mean over the completion tokens of token
    L     = sum over turns of weight * turn

With roll-outs one update old (`importance_cap` C), `old` is of another policy than the one before this update, and::

    w     = min(exp(before - old), C)          before = logp under the weights before the update, not differentiated
    rho   = exp(logp - before)
    token = -w * min(rho * A, clip(rho, 1 - clip_low, 1 + clip_high) * A)  +  the KL term

One update a batch: the weights before it are the current ones, so `before` is `logp` itself, rho is 1 in value, and the
gradient is `-w * A * grad logp`: of policy gradients on the older policy's tokens, each weighed by how much likelier it has
become, the weight truncated to bound the variance. (Truncated weights: IMPALA, arXiv 1802.01561, eq. 1; behaviour apart
from proximal policy: Hilton et al., arXiv 2110.00641, and AReaL, arXiv 2505.24298.)

Source: GRPO (DeepSeekMath, arXiv 2402.03300, eq. 3) with its k3 estimate of the KL to a reference; token-level ratios,
as TRL's `GRPOTrainer` computes with `loss_type="grpo"`. Departures: weights come from the rollout tree
(`weights.py`) instead of 1/rows; `old` is the sampler's own log-probability, so that the clipped ratio also corrects
for the gap between sampler and trainer; the KL carries the weight of its turn like the policy term; asymmetric clip.
"""

# T tokens: the completion tokens of all samples of a pass, one after the other

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class TokenTerms:
    """The parts of the objective, one a token, each of shape [T]."""

    loss_T: Tensor
    ratio_T: Tensor
    """To the policy that sampled: exp(logp - old)."""
    kl_T: Tensor
    """k3 estimate of the KL to the reference; zeros without one."""


def token_terms(
    logp_T: Tensor,
    old_T: Tensor,
    advantage_T: Tensor,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    ref_T: Tensor | None = None,
    beta: float = 0.0,
    importance_cap: float | None = None,
) -> TokenTerms:
    """Loss, ratio to the sampler and KL of each token. All inputs have shape [T]; only `logp_T` needs a gradient."""
    ratio_T = torch.exp(logp_T - old_T)
    weight_T, rho_T = torch.ones_like(ratio_T), ratio_T
    if importance_cap is not None:
        weight_T, rho_T = ratio_T.detach().clamp(max=importance_cap), torch.exp(logp_T - logp_T.detach())
    clipped_T = rho_T.clamp(1 - clip_low, 1 + clip_high)
    loss_T = -weight_T * torch.minimum(rho_T * advantage_T, clipped_T * advantage_T)
    kl_T = torch.zeros_like(logp_T) if ref_T is None else k3(logp_T, ref_T)
    if beta:
        loss_T = loss_T + beta * kl_T
    return TokenTerms(loss_T, ratio_T, kl_T)


def k3(logp_T: Tensor, ref_T: Tensor) -> Tensor:
    """Schulman's estimate of KL(policy || reference) from the policy's own tokens: never negative, 0 where equal."""
    delta_T = ref_T - logp_T
    return torch.exp(delta_T) - delta_T - 1


def turn_loss(
    logp_T: Tensor,
    old_T: Tensor,
    advantage: float,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    ref_T: Tensor | None = None,
    beta: float = 0.0,
) -> Tensor:
    """The loss of one turn: the mean over its T completion tokens. Scalar."""
    terms = token_terms(
        logp_T,
        old_T,
        torch.full_like(logp_T, advantage),
        clip_low=clip_low,
        clip_high=clip_high,
        ref_T=ref_T,
        beta=beta,
    )
    return terms.loss_T.mean()
