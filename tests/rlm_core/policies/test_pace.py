"""A rate limit: when calls may begin."""

from __future__ import annotations

import time

from openai_server import OpenAIStub

from rlm_core.policies import OpenAIPolicy, Sampling
from rlm_core.policies.pace import Pace


def test_moments_are_evenly_spread_and_unused_time_is_not_saved() -> None:
    now = 100.0
    pace = Pace(60, clock=lambda: now)
    assert [pace.reserve() for _ in range(3)] == [0, 1, 2]
    now = 110.0
    assert [pace.reserve() for _ in range(2)] == [0, 1]


async def test_without_a_limit_nobody_waits() -> None:
    pace = Pace(None)
    start = time.monotonic()
    for _ in range(100):
        await pace.turn()
    assert time.monotonic() - start < 1


async def test_a_policy_keeps_the_rate() -> None:
    async with OpenAIStub(lambda body: "ok") as stub, OpenAIPolicy(stub.url, "m", requests_per_minute=1200) as policy:
        start = time.monotonic()
        for _ in range(5):
            await policy.act([{"role": "user", "content": "q"}], Sampling())
        assert time.monotonic() - start >= 4 * 60 / 1200
