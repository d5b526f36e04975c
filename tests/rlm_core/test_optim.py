"""fp32 masters behind bf16 parameters."""

from __future__ import annotations

import copy

import pytest
import torch

from rlm_core.optim import MasterAdamW


def model_of(dtype: torch.dtype) -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).to(dtype)


def train(model: torch.nn.Module, optimizer: torch.optim.Optimizer, steps: int, start: int = 0) -> list[torch.Tensor]:
    for step in range(start, start + steps):
        data = torch.randn(6, 4, generator=torch.Generator().manual_seed(step))
        for half in data.chunk(2):
            model(half.to(next(model.parameters()).dtype)).square().mean().backward()
        optimizer.step()
    return [p.detach().float().clone() for p in model.parameters()]


def test_on_fp32_parameters_it_is_adamw():
    ours, theirs = model_of(torch.float32), model_of(torch.float32)
    a = train(ours, MasterAdamW(ours.parameters(), lr=0.01, max_grad_norm=1e9), 5)
    reference = torch.optim.AdamW(theirs.parameters(), lr=0.01, weight_decay=0.0)
    for step in range(5):
        train(theirs, _Once(reference), 1, start=step)
        reference.zero_grad()
    for x, y in zip(a, theirs.parameters(), strict=True):
        torch.testing.assert_close(x, y.detach())


class _Once:
    def __init__(self, inner: torch.optim.Optimizer) -> None:
        self.step = inner.step


def test_updates_too_small_for_bf16_are_not_lost():
    model = torch.nn.Linear(1, 1, bias=False).bfloat16()
    with torch.no_grad():
        model.weight.fill_(1.0)
    optimizer = MasterAdamW(model.parameters(), lr=1e-4, max_grad_norm=1e9)
    for _ in range(50):  # 50 steps of 1e-4 against a bf16 spacing of 2^-8 below 1: each alone would round away
        model(torch.ones(1, 1, dtype=torch.bfloat16)).sum().backward()
        optimizer.step()
    assert optimizer.masters[0].item() == pytest.approx(1 - 50e-4, abs=1e-5)
    assert model.weight.item() < 1.0 and model.weight.dtype == torch.bfloat16


def test_passes_sum_up_in_fp32():
    model = torch.nn.Linear(1, 1, bias=False).bfloat16()
    optimizer = MasterAdamW(model.parameters(), lr=0.0, max_grad_norm=1e9)
    for value in (256.0, 1.0, 1.0):  # in bf16, 256 + 1 is 256
        model(torch.full((1, 1), value, dtype=torch.bfloat16)).sum().backward()
    assert model.weight.grad is None
    optimizer.step()
    assert optimizer.last_grad_norm == 258.0


def test_the_gradient_is_clipped_as_a_whole():
    model = torch.nn.Linear(2, 1, bias=False)
    optimizer = MasterAdamW(model.parameters(), lr=0.1, max_grad_norm=1.0)
    model(torch.tensor([[3.0, 4.0]])).sum().backward()
    optimizer.step()
    assert optimizer.last_grad_norm == pytest.approx(5.0)
    first_moment = optimizer.inner.state[optimizer.masters[0]]["exp_avg"]
    assert first_moment.flatten().tolist() == pytest.approx([0.1 * 0.6, 0.1 * 0.8])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_resume_gives_the_same_numbers(dtype: torch.dtype, tmp_path):  # type: ignore[no-untyped-def]
    whole = model_of(dtype)
    expected = train(whole, MasterAdamW(whole.parameters(), lr=0.01), 6)

    first = model_of(dtype)
    optimizer = MasterAdamW(first.parameters(), lr=0.01)
    train(first, optimizer, 3)
    torch.save({"model": copy.deepcopy(first.state_dict()), "optimizer": optimizer.state_dict()}, tmp_path / "s.pt")

    again = model_of(dtype)
    restored = MasterAdamW(again.parameters(), lr=0.5)
    saved = torch.load(tmp_path / "s.pt", weights_only=True)
    again.load_state_dict(saved["model"])
    restored.load_state_dict(saved["optimizer"])
    for x, y in zip(train(again, restored, 3, start=3), expected, strict=True):
        assert torch.equal(x, y)


def test_nothing_to_train_is_an_error():
    with pytest.raises(ValueError, match="nothing would be trained"):
        MasterAdamW([torch.zeros(2)], lr=0.1)
