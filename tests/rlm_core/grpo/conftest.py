"""Builders of small rollout trees, random samples and tiny untrained models."""

from __future__ import annotations

import random
import runpy
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from rlm_core.records import Rollout, Turn, TurnSample

VOCABULARY = 48


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def make_tree() -> Callable[..., Rollout]:
    """`make_tree(turns=2, children=[make_tree(turns=1)])`; `tokens` sets the completion length of each turn."""

    def build(
        turns: int = 1, children: list[Rollout] | None = None, *, id: str = "n", tokens: list[int] | None = None
    ) -> Rollout:
        lengths = tokens or [2] * turns
        made = tuple(
            Turn(text="x", prompt_ids=(1, 2), completion_ids=tuple(range(3, 3 + n)), logprobs=(-1.0,) * n)
            for n in lengths
        )
        return Rollout(id=id, turns=made, children=tuple(children or ()))

    return build


def random_samples(seed: int, num_rollouts: int = 5, *, ephemeral: bool = True) -> list[TurnSample]:
    """Turns of rollouts that share an opening; with an ephemeral cue the turns of a rollout branch inside the prompt."""
    rng = random.Random(seed)

    def tokens(low: int, high: int) -> list[int]:
        return [rng.randrange(VOCABULARY) for _ in range(rng.randint(low, high))]

    opening = tokens(6, 9)
    samples = []
    for index in range(num_rollouts):
        history = opening + (tokens(0, 2) if rng.random() < 0.5 else [])
        for turn in range(rng.randint(1, 3)):
            cue = [40 + turn, 7]
            completion = tokens(1, 5)
            old = [-rng.uniform(3.2, 4.4) for _ in completion]
            samples.append(
                TurnSample(history + cue, completion, old, rng.uniform(-2, 2), rng.uniform(0.05, 0.5), f"r{index}")
            )
            history = history + ([] if ephemeral else cue) + completion + tokens(1, 4)
    # Two rollouts that sampled the very same turn, with other advantages: one node of the trie, two losses.
    twin = samples[0]
    samples.append(
        TurnSample(twin.prompt_ids, twin.completion_ids, [p - 0.1 for p in twin.logprobs], -0.7, 0.2, "twin")
    )
    return samples


def build_model(kind: str, implementation: str = "sdpa") -> Any:
    """A tiny model of the kind, fp32, weights large enough that logits differ between tokens."""
    import transformers as tf

    common: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
        "initializer_range": 0.15,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    torch.manual_seed(0)
    if kind == "llama":
        config, cls = tf.LlamaConfig(**common), tf.LlamaForCausalLM
    elif kind == "qwen2":
        config, cls = tf.Qwen2Config(**common), tf.Qwen2ForCausalLM
    elif kind == "qwen3":
        config, cls = tf.Qwen3Config(**common, head_dim=8), tf.Qwen3ForCausalLM
    elif kind == "mistral-window":
        config, cls = tf.MistralConfig(**common, sliding_window=5), tf.MistralForCausalLM
    elif kind == "qwen2-window":
        config = tf.Qwen2Config(**common, use_sliding_window=True, sliding_window=5, max_window_layers=1)
        cls = tf.Qwen2ForCausalLM
    elif kind == "gemma3-window":
        config = tf.Gemma3TextConfig(
            **common, head_dim=8, sliding_window=5, layer_types=["sliding_attention", "full_attention"]
        )
        cls = tf.Gemma3ForCausalLM
    elif kind == "qwen3.5":
        config = tf.Qwen3_5TextConfig(
            **common,
            head_dim=8,
            layer_types=["linear_attention", "full_attention"],
            linear_num_key_heads=2,
            linear_num_value_heads=2,
            linear_key_head_dim=8,
            linear_value_head_dim=8,
        )
        cls = tf.Qwen3_5ForCausalLM
    else:
        raise ValueError(kind)
    config._attn_implementation = implementation
    return cls(config).eval()


def loss_and_gradient(model: Any, loss: torch.Tensor) -> tuple[float, torch.Tensor]:
    model.zero_grad()
    loss.backward()
    return loss.item(), torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def relative(a: torch.Tensor, b: torch.Tensor) -> float:
    return ((a - b).norm() / b.norm()).item()


@pytest.fixture(scope="session")
def kit() -> SimpleNamespace:
    """The helpers above, for tests (a conftest cannot be imported)."""
    return SimpleNamespace(
        build_model=build_model,
        random_samples=random_samples,
        loss_and_gradient=loss_and_gradient,
        relative=relative,
        vocabulary=VOCABULARY,
    )


@pytest.fixture(scope="session")
def play() -> SimpleNamespace:
    """What `selfplay.py` defines: a training run on a tiny model that samples for itself."""
    return SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("selfplay.py"))))
