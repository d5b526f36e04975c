"""GRPO: batches, objective, packing, checkpoints."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from rlm_core.params.judge import JudgeParams
from rlm_core.params.section import Section, Share, Temperature


class LoraParams(Section):
    """Train low-rank adapters instead of all weights."""

    rank: int = Field(16, ge=1)
    """Columns of the two thin matrices beside each layer."""
    alpha: float = Field(32.0, gt=0)
    """The adapter's output is scaled by alpha / rank."""
    targets: Literal["all-linear"] | tuple[str, ...] = "all-linear"
    """Layers with an adapter, by the last part of their names, e.g. [q_proj, v_proj]; the output layer never has one."""


class GrpoParams(Section):
    steps: int = Field(16, ge=1)
    """Optimizer steps; one batch of rollouts each."""
    queries_per_step: int = Field(8, ge=1)
    """Groups a step."""
    rollouts_per_query: int = Field(8, ge=2)
    """G: trees a query, the group that advantages compare."""
    refill: int = Field(8, ge=0)
    """Extra groups a step at most, rolled out in place of groups whose rewards are all equal; 0 trains on what is left."""
    multi_share: Share | None = None
    """Share of the groups drawn that are multi-paper questions; null draws the questions as they come."""
    ahead: int = Field(0, ge=0, le=1)
    """1 rolls out the next batch while this one trains; its tokens are one update old and weighted by `importance_cap`."""
    importance_cap: float = Field(2.0, ge=1)
    """For `ahead: 1`: a token's weight is min(policy before the update / policy that sampled it, this)."""
    lr: float = Field(5e-5, gt=0)
    """Learning rate after warm-up, constant."""
    warmup_steps: int = Field(2, ge=0)
    """Steps over which the learning rate rises."""
    max_grad_norm: float = Field(1.0, gt=0)
    """Gradients are scaled down to this norm."""
    clip_low: float = Field(0.2, ge=0)
    """Ratios under 1 - clip_low are clipped."""
    clip_high: float = Field(0.2, ge=0)
    """Ratios over 1 + clip_high are clipped."""
    beta: float = Field(0.0, ge=0)
    """Weight of the k3 KL to the SFT model; 0 keeps no reference."""
    scale_by_std: bool = True
    """Divide advantages by the group's standard deviation."""
    temperature: float = Field(1.0, gt=0)
    """Of the roll-out; the loss divides logits by it too."""
    tree_mass: Literal["per_node", "constant"] = "per_node"
    """`per_node`: children share one more unit of mass than the root; `constant`: every tree weighs 1."""
    token_aggregation: Literal["turn_mean", "node_mean", "constant"] = "turn_mean"
    """How the tokens of a node are averaged."""
    token_normaliser: int = Field(160, ge=1)
    """For `token_aggregation: constant`: a turn's token losses are summed and divided by this, whatever its length."""
    children: Literal["inherit", "no_division", "root_only", "frozen"] = "inherit"
    """`inherit`: children get the tree's advantage, their loss divided by their number. Ablations: `no_division`;
    `root_only` trains no child; `frozen` trains no child and has the SFT model act as children, on a server of its own."""
    packing: Literal["auto", "tree", "chain", "none"] = "auto"
    """How turns that share a prefix are computed; changes speed, not the gradient."""
    max_tokens_per_pass: int = Field(2048, ge=256)
    """Tokens of one forward pass: bounds memory."""
    gradient_checkpointing: bool = False
    """Keep only the input of each layer for the backward pass and compute the rest again: a third more work, a tenth of the
    memory. Needed for long passes of large models; `rlm-forge plan` says."""
    length_cut: Literal["keep", "mask", "drop"] = "keep"
    """Turns cut at `max_tokens_per_turn`: `keep` trains them like others, `mask` leaves them out, `drop` leaves out their
    whole tree, as if it were not judged."""
    save_every: int = Field(1, ge=1)
    """Steps between checkpoints that a resume starts from."""
    eval_every: int = Field(5, ge=0)
    """Steps between evaluations on validation queries; 0 never."""
    eval_queries: int = Field(16, ge=1)
    """Validation queries an evaluation, spread evenly over the file."""
    eval_samples: int = Field(4, ge=1)
    """Rollouts a validation query: more make the choice of a checkpoint less a matter of luck."""
    eval_temperatures: tuple[Temperature, ...] = (0.0,)
    """Further temperatures of each evaluation, one rollout a query: a gain at `temperature` alone may be mere sharpening;
    0 is greedy."""
    patience: int | None = Field(None, ge=1)
    """Stop after this many evaluations in a row without a better validation reward; null trains all steps."""
    select: Literal["best", "last"] = "best"
    """Weights that become the model: those with the best validation reward, or those of the last step."""
    lora: LoraParams | None = None
    """Train adapters on the SFT model, merged for whoever samples; null trains all weights. Takes about ten times the `lr`."""
    max_sampled_tokens: int | None = Field(None, ge=1)
    """Stop after the step that has brought the tokens sampled for training to this number; null goes by `steps` alone."""
    guard_judge: JudgeParams | None = None
    """A second judge, logged beside the reward and never trained on; a warning tells when the two part. Null leaves
    evidence F1 as the only guard."""
