"""Loss and gradient of turn samples under a model: plan passes, score tokens, apply the objective.

`policy_loss` returns the differentiable scalar; `accumulate_gradients` runs forward and backward pass by pass, so that
memory is that of one pass, and reports what happened. Both give the same numbers for any packing and pass size.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from rlm_core.grpo.forward import choose_packing, token_logprobs
from rlm_core.grpo.objective import TokenTerms, token_terms
from rlm_core.grpo.packing import Pass, plan_passes
from rlm_core.grpo.report import LossReport, Tally
from rlm_core.params import GrpoParams
from rlm_core.records import TurnSample


def policy_loss(
    model: Any,
    samples: Sequence[TurnSample],
    config: GrpoParams | None = None,
    packing: str = "tree",
    *,
    reference: Any = None,
) -> Tensor:
    """L = sum over samples of weight * turn_loss, a scalar that can be differentiated.

    `model`: a causal LM of transformers (or a PEFT model around one). `reference`: for `config.beta > 0`, a frozen copy;
    a PEFT model with its adapters off serves when None. Holds the graphs of all passes; to train on much, use
    `accumulate_gradients`.
    """
    config = config or GrpoParams()
    terms = [loss for _, _, loss in _losses(model, samples, config, packing, reference)]
    if not terms:
        return torch.zeros((), device=next(model.parameters()).device, requires_grad=True)
    return torch.stack(terms).sum()


def accumulate_gradients(
    model: Any,
    samples: Sequence[TurnSample],
    config: GrpoParams | None = None,
    packing: str | None = None,
    *,
    reference: Any = None,
    scale: float = 1.0,
    filler: tuple[TurnSample, int] | None = None,
) -> LossReport:
    """Add the gradient of `policy_loss` to the parameters' `.grad`, one pass at a time. `packing` None: as configured.

    `scale` multiplies the gradient and not the report. `filler`: a sample and the number of passes to run at least; passes
    that are missing compute the sample and weigh it 0, for processes that must run as many.
    """
    config = config or GrpoParams()
    packing = choose_packing(model, packing or config.packing)
    tally = Tally(config, packing)
    for work, terms, loss in _losses(model, samples, config, packing, reference):
        (loss * scale).backward()
        tally.add(work, terms, loss)
    if filler is not None:
        for _ in range(filler[1] - tally.num_passes):
            (work,) = plan_passes([filler[0]], packing, config.max_tokens_per_pass)
            (_terms(model, work, config, reference).loss_T.sum() * 0).backward()
    return tally.report()


def count_passes(model: Any, samples: Sequence[TurnSample], config: GrpoParams, packing: str) -> int:
    """Passes that `accumulate_gradients` runs."""
    return len(plan_passes(_active(samples, config), choose_packing(model, packing), config.max_tokens_per_pass))


def _losses(
    model: Any, samples: Sequence[TurnSample], config: GrpoParams, packing: str, reference: Any
) -> Iterator[tuple[Pass, TokenTerms, Tensor]]:
    active = _active(samples, config)
    for sample in active:
        _check(sample)
    for work in plan_passes(active, choose_packing(model, packing), config.max_tokens_per_pass):
        terms = _terms(model, work, config, reference)
        weight_T = work.per_token([s.weight / len(s.completion_ids) for s in work.samples], terms.loss_T)
        yield work, terms, (weight_T * terms.loss_T).sum()


def _active(samples: Sequence[TurnSample], config: GrpoParams) -> list[TurnSample]:
    """Samples whose gradient is not zero whatever the model says."""
    return [s for s in samples if s.weight != 0 and (s.advantage != 0 or config.beta > 0)]


def _terms(model: Any, work: Pass, config: GrpoParams, reference: Any) -> TokenTerms:
    logp_T = token_logprobs(model, work, temperature=config.temperature)
    old_T = torch.tensor([p for s in work.samples for p in s.logprobs], dtype=logp_T.dtype, device=logp_T.device)
    ref_T = _reference_logprobs(model, work, config, reference) if config.beta > 0 else None
    return token_terms(
        logp_T,
        old_T,
        work.per_token([s.advantage for s in work.samples], logp_T),
        clip_low=config.clip_low,
        clip_high=config.clip_high,
        ref_T=ref_T,
        beta=config.beta,
        importance_cap=config.importance_cap if config.ahead else None,
    )


def _reference_logprobs(model: Any, work: Pass, config: GrpoParams, reference: Any) -> Tensor:
    if reference is None and not hasattr(model, "disable_adapter"):
        raise ValueError(
            f"beta is {config.beta} but there is no reference: pass a frozen copy of the model as `reference`, "
            "or set beta to 0"
        )
    adapters_off = model.disable_adapter() if reference is None else contextlib.nullcontext()
    with torch.no_grad(), adapters_off:
        return token_logprobs(model if reference is None else reference, work, temperature=config.temperature)


def _check(sample: TurnSample) -> None:
    where = f"sample of node {sample.node_id!r}"
    if not sample.prompt_ids or not sample.completion_ids:
        raise ValueError(f"{where}: needs at least one prompt and one completion token")
    if len(sample.logprobs) != len(sample.completion_ids):
        raise ValueError(
            f"{where}: {len(sample.logprobs)} logprobs for {len(sample.completion_ids)} tokens; "
            "request logprobs of the sampled tokens"
        )
