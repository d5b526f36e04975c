"""The guard against a reward that parts from what it does not see: its error rates over whole runs, and small sums."""

from __future__ import annotations

import numpy as np
import pytest

from rlm_core.grpo.guard import parted_guards


def curve(reward: float, guard: float, *, steps: int = 16, key: str = "evidence_f1") -> list[dict[str, float]]:
    """Both start at 0.3 and rise evenly, by so much in all."""
    return [{"reward_mean": 0.3 + reward * i / 15, key: 0.3 + guard * i / 15} for i in range(steps)]


def test_it_warns_when_reward_and_guard_part():
    assert parted_guards(curve(0.2, -0.2), steps=16) == ["evidence_f1"]
    assert parted_guards(curve(0.2, -0.2, key="guard_reward"), steps=16) == ["guard_reward"]
    assert parted_guards(curve(0.3, 0.0), steps=16) == ["evidence_f1"]
    assert not parted_guards(curve(0.2, 0.2), steps=16)
    assert not parted_guards(curve(0.2, -0.2)[:15], steps=16)  # two windows of 8 are needed
    assert not parted_guards([{"reward_mean": 0.1 * i} for i in range(16)], steps=16)  # and the guard


def test_a_guard_on_a_flatter_scale_is_no_alarm():
    # the gap grows by .2 * 8/15 = .107 between the windows, but the guard rises too
    assert not parted_guards(curve(0.3, 0.1), steps=16)


def test_a_gap_too_small_to_matter_is_no_alarm():
    # reward + .04, guard 0 over the run: the gap grows by .04 * 8/15 = .021 < .05, however sure
    assert not parted_guards(curve(0.04, 0.0), steps=16)


def test_no_variance_is_certainty():
    flat = [{"reward_mean": 0.3, "evidence_f1": 0.3}] * 8 + [{"reward_mean": 0.6, "evidence_f1": 0.2}] * 8
    assert parted_guards(flat, steps=16) == ["evidence_f1"]


def alarm_share(rise: float, guard: float, *, steps: int, runs: int = 120) -> float:
    """Share of runs with an alarm at any step. A step's queries move both by 0.08, each has noise of its own of 0.015."""
    rng = np.random.default_rng(5)
    trend = np.linspace(0, 1, steps)
    alarms = 0
    for _ in range(runs):
        shared = rng.normal(0, 0.08, steps)
        rewards = 0.4 + rise * trend + shared + rng.normal(0, 0.015, steps)
        guards = 0.35 + guard * trend + shared + rng.normal(0, 0.015, steps)
        rows = [{"reward_mean": r, "evidence_f1": g} for r, g in zip(rewards, guards, strict=True)]
        alarms += any(parted_guards(rows[:k], steps=steps) for k in range(16, steps + 1))
    return alarms / runs


@pytest.mark.parametrize("steps", [16, 40])
def test_error_rates_over_a_run(steps: int):
    assert alarm_share(0.0, 0.0, steps=steps) <= 0.05  # nothing happens
    assert alarm_share(0.3, 0.2, steps=steps) <= 0.05  # both rise
    assert alarm_share(0.4, -0.2, steps=steps) >= 0.9  # the reward is hacked
