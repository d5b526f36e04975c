"""Sampling in this process: batches, per-row settings, and logprobs against a plain forward pass."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import torch

from rlm_core.policies import Action, Message, PolicyError, PromptTooLong, Sampling, TransformersPolicy
from rlm_core.policies.sampling import log_distribution


@pytest.fixture
async def policy(tiny_model: Path) -> AsyncIterator[TransformersPolicy]:
    async with TransformersPolicy(tiny_model) as policy:
        yield policy


def test_the_distribution_of_one_token():
    # probabilities 0.5, 0.25, 0.125, 0.125
    logits = torch.tensor([3.0, 2.0, 1.0, 1.0]) * math.log(2)
    plain = log_distribution(logits, Sampling(temperature=1.0)).exp()
    assert plain.tolist() == pytest.approx([0.5, 0.25, 0.125, 0.125])
    # T = 1/2 squares them: 0.25, 0.0625, 0.015625, 0.015625 of 0.34375
    cold = log_distribution(logits, Sampling(temperature=0.5)).exp()
    assert cold.tolist() == pytest.approx([8 / 11, 2 / 11, 0.5 / 11, 0.5 / 11])
    # top_p 0.6: the first alone has 0.5, the first two 0.75 -> 2/3, 1/3
    assert log_distribution(logits, Sampling(top_p=0.6)).exp().tolist() == pytest.approx([2 / 3, 1 / 3, 0, 0])
    # top_p 0.5 is reached by the first
    assert log_distribution(logits, Sampling(top_p=0.5)).exp().tolist() == pytest.approx([1, 0, 0, 0])


@torch.no_grad()
def worst_difference(model: Any, action: Action, sampling: Sampling) -> float:
    ids = torch.tensor([action.prompt_ids + action.completion_ids])
    logits = model(ids).logits[0, len(action.prompt_ids) - 1 : -1]
    pairs = zip(logits, action.completion_ids, action.logprobs, strict=True)
    return max(abs(float(log_distribution(row, sampling)[token]) - logprob) for row, token, logprob in pairs)


async def test_a_batch_of_unlike_calls_is_sampled_as_if_each_were_alone(policy: TransformersPolicy):
    asks = [
        ("short", Sampling(temperature=1.0, max_tokens=5, seed=1)),
        (
            "a much longer question, so that the others are padded " * 3,
            Sampling(temperature=0.5, max_tokens=12, seed=2),
        ),
        ("greedy", Sampling(temperature=0.0, max_tokens=9)),
        ("narrow", Sampling(temperature=1.2, top_p=0.5, max_tokens=7, seed=3)),
    ]
    calls = [policy.act([Message("user", text)], sampling) for text, sampling in asks]
    together = await asyncio.gather(*calls)
    for action, (text, sampling) in zip(together, asks, strict=True):
        alone = await policy.act([Message("user", text)], sampling)
        assert action.completion_ids == alone.completion_ids
        assert len(action.completion_ids) == len(action.logprobs) == action.completion_tokens == sampling.max_tokens
        assert action.finish_reason == "length"
        assert action.prompt_ids == policy.renderer.prompt_ids([Message("user", text)])
        assert worst_difference(policy.model, action, sampling) < 1e-4


async def test_a_stop_token_is_kept_as_sampled_but_not_as_text(policy: TransformersPolicy):
    greedy = Sampling(temperature=0.0, max_tokens=8)
    free = await policy.act([Message("user", "hi")], greedy)
    stop = free.completion_ids[3]
    first = free.completion_ids.index(stop)
    policy.stop_ids = (*policy.stop_ids, stop)
    stopped = await policy.act([Message("user", "hi")], greedy)
    assert stopped.completion_ids == free.completion_ids[: first + 1]
    assert stopped.logprobs == pytest.approx(free.logprobs[: first + 1])
    assert (stopped.finish_reason, stopped.text) == ("stop", policy.renderer.decode(free.completion_ids[:first]))


async def test_calls_that_wait_together_share_batches(policy: TransformersPolicy, monkeypatch: pytest.MonkeyPatch):
    sizes: list[int] = []
    generate = policy._generate
    monkeypatch.setattr(policy, "_generate", lambda batch: (sizes.append(len(batch)), generate(batch))[1])
    policy.max_batch_size = 8
    await asyncio.gather(*(policy.act([Message("user", str(n))], Sampling(max_tokens=2)) for n in range(20)))
    assert sizes == [8, 8, 4]


async def test_sampling_follows_the_distribution(tiny_model: Path):
    """The share of the most likely token, over 1,000 draws, is within 4 standard errors of its probability."""
    from rlm_core.policies.sampling import RowSampler

    logits = torch.tensor([[2.0, 1.0, 0.0, -1.0]])
    sampler = RowSampler([Sampling(temperature=0.7, seed=11)], [1000], stop_id=0)
    draws = [int(sampler(torch.zeros(1, 1), logits).argmax()) for _ in range(1000)]
    p = float(log_distribution(logits[0], Sampling(temperature=0.7)).exp()[0])
    assert abs(draws.count(0) / 1000 - p) < 4 * math.sqrt(p * (1 - p) / 1000)


async def test_a_prompt_too_long(policy: TransformersPolicy):
    policy.max_model_len = 40
    with pytest.raises(PromptTooLong, match="context 40"):
        await policy.act([Message("user", "hi " * 50)], Sampling())
    room = 40 - len(policy.renderer.prompt_ids([Message("user", "hi")]))
    assert (await policy.act([Message("user", "hi")], Sampling(max_tokens=99))).completion_tokens == room


async def test_a_failure_reaches_those_who_wait_and_the_worker_goes_on(
    policy: TransformersPolicy, monkeypatch: pytest.MonkeyPatch
):
    def fail(batch: Any) -> Any:
        raise RuntimeError("out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(policy, "_generate", fail)
        with pytest.raises(PolicyError, match="out of memory"):
            await policy.act([Message("user", "hi")], Sampling(max_tokens=2))
    assert (await policy.act([Message("user", "hi")], Sampling(max_tokens=2))).completion_tokens == 2


async def test_the_models_own_generation_settings_do_not_act(policy: TransformersPolicy):
    """A generation_config.json with top_k 1 would make all samples equal, and their logprobs wrong."""
    policy.model.generation_config.top_k = 1
    policy.model.generation_config.repetition_penalty = 5.0
    sampling = Sampling(temperature=1.0, max_tokens=10, seed=5)
    action = await policy.act([Message("user", "hi")], sampling)
    assert worst_difference(policy.model, action, sampling) < 1e-4
    assert policy.model.generation_config.top_k == 1


def test_a_loaded_model_needs_a_tokenizer():
    with pytest.raises(ValueError, match="tokenizer"):
        TransformersPolicy(torch.nn.Linear(1, 1))
