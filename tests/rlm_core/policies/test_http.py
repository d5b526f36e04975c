"""Waiting, and letting go."""

from __future__ import annotations

import asyncio
import email.utils
import gc
import logging
import time
import warnings

import pytest
from openai_server import OpenAIStub

from rlm_core.policies.base import PolicyError
from rlm_core.policies.http import JsonClient, _seconds_to_wait


@pytest.mark.parametrize(
    ("header", "seconds"), [("2", 2), ("0.5", 0.5), ("-3", 0), ("99999", 60), ("", None), ("soon", None), ("nan", None)]
)
def test_retry_after(header: str, seconds: float | None):
    assert _seconds_to_wait(header) == seconds


def test_retry_after_as_a_date():
    assert _seconds_to_wait(email.utils.formatdate(time.time() + 20, usegmt=True)) == pytest.approx(20, abs=2)
    assert _seconds_to_wait(email.utils.formatdate(time.time() - 20, usegmt=True)) == 0


async def test_waits_double_with_jitter(monkeypatch: pytest.MonkeyPatch):
    waits: list[float] = []

    async def note(seconds: float) -> None:
        waits.append(seconds)

    client = JsonClient("http://127.0.0.1:9", max_retries=4, first_wait_seconds=1.0)
    with monkeypatch.context() as patch:
        patch.setattr("rlm_core.policies.http.asyncio.sleep", note)
        with pytest.raises(PolicyError, match="gave up after 5 tries"):
            await client.get("x", lambda reply: reply)
    # 1, 2, 4, 8 seconds, each times 0.5 to 1.5
    assert len(waits) == 4
    assert all(0.5 * 2**n <= wait <= 1.5 * 2**n for n, wait in enumerate(waits))


async def test_a_reason_to_give_up_ends_the_tries():
    client = JsonClient("http://127.0.0.1:9", max_retries=50, give_up=lambda: "the process is dead")
    start = time.monotonic()
    with pytest.raises(PolicyError, match="the process is dead"):
        await client.get("x", lambda reply: reply)
    assert time.monotonic() - start < 1


def test_a_client_that_nobody_closed_goes_quietly(caplog: pytest.LogCaptureFixture):
    async def call(url: str) -> None:
        await JsonClient(url).post("chat/completions", {"messages": []}, lambda reply: reply)

    with OpenAIStub.in_thread() as stub, warnings.catch_warnings(), caplog.at_level(logging.ERROR):
        warnings.simplefilter("error")
        asyncio.run(call(stub.url))
        gc.collect()
    assert caplog.records == []
