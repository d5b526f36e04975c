"""What one accumulation of gradients did, gathered pass by pass."""

# T tokens: the completion tokens of all samples of a pass

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from rlm_core.grpo.objective import TokenTerms
from rlm_core.grpo.packing import Pass
from rlm_core.params import GrpoParams

RATIO_BAND = (0.9, 1.1)
"""Ratios outside this band are counted: sampler and trainer, or two versions of the weights, disagree there."""


@dataclass(frozen=True, slots=True)
class LossReport:
    """What one accumulation did. Means are over completion tokens, each counted once a sample; 0 without samples."""

    loss: float = 0.0
    kl: float = 0.0
    entropy: float = 0.0
    """Estimate from the sampled tokens: mean of -logp, in nats."""
    ratio_outside: float = 0.0
    """Share of tokens whose ratio lies outside `RATIO_BAND`."""
    logp_gap: float = 0.0
    """Mean of |logp - logp as sampled|."""
    clipped: float = 0.0
    """Share of tokens whose gradient the clip removes; with roll-outs one update old, whose weight is truncated."""
    num_samples: int = 0
    num_scored: int = 0
    num_computed: int = 0
    """Tokens that went through the model."""
    num_passes: int = 0
    packing: str = ""


def merge_reports(reports: Sequence[LossReport]) -> LossReport:
    """One report of what several processes did: sums are summed, means are weighted by their tokens."""
    if len(reports) == 1:
        return reports[0]
    scored = [r.num_scored for r in reports]

    def mean(name: str) -> float:
        return sum(getattr(r, name) * n for r, n in zip(reports, scored, strict=True)) / max(1, sum(scored))

    return LossReport(
        loss=sum(r.loss for r in reports),
        num_samples=sum(r.num_samples for r in reports),
        num_scored=sum(scored),
        num_computed=sum(r.num_computed for r in reports),
        num_passes=sum(r.num_passes for r in reports),
        packing=reports[0].packing,
        **{name: mean(name) for name in ("kl", "entropy", "ratio_outside", "logp_gap", "clipped")},
    )


@dataclass
class Tally:
    """Sums over passes; `report` turns them into means."""

    config: GrpoParams
    packing: str
    loss: float = 0.0
    sums: Tensor = field(default_factory=lambda: torch.zeros(5, dtype=torch.float64))
    """Over tokens: KL, -logp, outside the band, |gap|, clipped."""
    num_samples: int = 0
    num_scored: int = 0
    num_computed: int = 0
    num_passes: int = 0

    @torch.no_grad()
    def add(self, work: Pass, terms: TokenTerms, loss: Tensor) -> None:
        ratio_T = terms.ratio_T
        old_T = torch.tensor([p for s in work.samples for p in s.logprobs], device=ratio_T.device)
        gap_T = ratio_T.log()
        gain_T = work.per_token([s.advantage for s in work.samples], ratio_T)
        outside_T = (ratio_T < RATIO_BAND[0]) | (ratio_T > RATIO_BAND[1])
        if self.config.ahead:
            clipped_T = ratio_T > self.config.importance_cap
        else:
            low_T = (ratio_T < 1 - self.config.clip_low) & (gain_T < 0)
            clipped_T = low_T | ((ratio_T > 1 + self.config.clip_high) & (gain_T > 0))
        rows = (terms.kl_T, -(gap_T + old_T), outside_T, gap_T.abs(), clipped_T)
        self.sums += torch.stack([row.double().sum() for row in rows]).cpu()
        self.loss += loss.item()
        self.num_samples += len(work.samples)
        self.num_scored += len(work.sample_T)
        self.num_computed += work.num_tokens
        self.num_passes += 1

    def report(self) -> LossReport:
        kl, entropy, outside, gap, clipped = (self.sums / max(1, self.num_scored)).tolist()
        return LossReport(
            loss=self.loss,
            kl=kl,
            entropy=entropy,
            ratio_outside=outside,
            logp_gap=gap,
            clipped=clipped,
            num_samples=self.num_samples,
            num_scored=self.num_scored,
            num_computed=self.num_computed,
            num_passes=self.num_passes,
            packing=self.packing,
        )
