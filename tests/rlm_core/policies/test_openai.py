"""The endpoint policy against the loopback stub: what it sends, what it reads, and every way an endpoint can fail."""

from __future__ import annotations

import asyncio
import email.utils
import time
from typing import Any

import pytest
from openai_server import Fault, OpenAIStub

from rlm_core.params import EndpointParams
from rlm_core.policies import Message, OpenAIPolicy, PolicyError, PromptTooLong, Sampling

HI = [Message("system", "be brief"), Message("user", "hi there")]


def policy_for(stub: OpenAIStub, **options: Any) -> OpenAIPolicy:
    policy = OpenAIPolicy(stub.url, "stub", **{"max_retries": 2, "timeout_seconds": 5.0, **options})
    policy._http._first_wait = 0.01  # tests do not wait
    return policy


async def test_sends_the_conversation_and_counts_usage():
    async with OpenAIStub(lambda body: "hello") as stub, policy_for(stub) as policy:
        action = await policy.act(HI, Sampling(temperature=0.3, top_p=0.9, max_tokens=7, seed=5))
        await policy.act([{"role": "user", "content": "again"}], Sampling())
        body = stub.posts[0]
    assert action.text == "hello"
    # 4 words in the prompt, 5 letters in the reply: the stub's counts
    assert (action.prompt_tokens, action.completion_tokens) == (4, 5)
    assert (action.prompt_ids, action.completion_ids, action.logprobs) == ((), (), ())
    assert body["messages"] == [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi there"}]
    assert (body["temperature"], body["top_p"], body["max_tokens"], body["seed"]) == (0.3, 0.9, 7, 5)
    assert (policy.usage.calls, policy.usage.prompt_tokens, policy.usage.completion_tokens) == (2, 5, 10)


async def test_token_ids_and_logprobs_where_the_server_gives_them():
    async with (
        OpenAIStub(lambda body: "ab", with_logprobs=True, with_token_ids=True) as stub,
        policy_for(stub) as policy,
    ):
        action = await policy.act(HI, Sampling())
    assert (action.completion_ids, action.logprobs) == ((97, 98), (-0.5, -0.5))
    assert action.prompt_ids == (2, 5, 2, 5)


async def test_fields_that_the_server_does_not_know_are_left_out_from_then_on():
    unknown = ("return_token_ids", "logprobs", "max_tokens")
    async with OpenAIStub(unknown_fields=unknown) as stub, policy_for(stub) as policy:
        await policy.act(HI, Sampling(max_tokens=9, seed=1))
        await policy.act(HI, Sampling(max_tokens=9, seed=1))
        assert len(stub.posts) == 3 + 1 + 1  # three refusals, an answer, and an answer at once
        last = stub.posts[-1]
    assert not set(unknown) & set(last)
    assert (last["max_completion_tokens"], last["seed"]) == (9, 1)


async def test_a_wrong_key_is_named_by_its_variable_and_not_tried_again(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("STUB_KEY", "wrong-secret")
    async with OpenAIStub(api_key="right") as stub:
        async with policy_for(stub, api_key_env="STUB_KEY") as policy:
            with pytest.raises(PolicyError, match=r"401.*STUB_KEY is not accepted") as failure:
                await policy.act(HI, Sampling())
        assert "wrong-secret" not in str(failure.value)
        assert len(stub.posts) == 1
        async with policy_for(stub, api_key_env="NO_SUCH_KEY") as policy:
            with pytest.raises(PolicyError, match="set the environment variable NO_SUCH_KEY"):
                await policy.act(HI, Sampling())
        monkeypatch.setenv("STUB_KEY", "right")
        async with policy_for(stub, api_key_env="STUB_KEY") as policy:
            assert (await policy.act(HI, Sampling())).text == "ok"


@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=429),
        Fault(status=500),
        Fault(status=503, body=b"<html>down</html>"),
        Fault(status=408),
        Fault(body=b"{not json"),
        Fault(body=b"[]"),
        Fault(body=b'{"choices": []}'),
        Fault(body=b'{"choices": [{"message": {"content": null}, "finish_reason": "stop"}]}'),
        Fault(cut=True),
        Fault(drop=True),
    ],
    ids=lambda f: f"{f.status or ''}{'cut' if f.cut else 'drop' if f.drop else f.body or ''}",
)
async def test_a_passing_fault_is_tried_again_and_a_lasting_one_is_an_error(fault: Fault):
    async with OpenAIStub() as stub, policy_for(stub, max_retries=2) as policy:
        stub.faults.extend([fault, fault])
        assert (await policy.act(HI, Sampling())).text == "ok"
        assert policy.usage.retries == 2
        stub.faults.extend([fault, fault, fault])
        with pytest.raises(PolicyError, match="gave up after 3 tries"):
            await policy.act(HI, Sampling())


async def test_retry_after_is_obeyed_as_seconds_and_as_a_date():
    for as_date in (False, True):
        async with OpenAIStub() as stub, policy_for(stub) as policy:
            due = int(time.time() + 2)  # a date has whole seconds
            value = email.utils.formatdate(due, usegmt=True) if as_date else "0.4"
            stub.faults.append(Fault(status=429, headers={"Retry-After": value}))
            start = time.time()
            await policy.act(HI, Sampling())
            assert time.time() >= (due if as_date else start + 0.4) - 0.05, value
            assert time.time() < start + 10, value


async def test_a_spent_quota_is_not_waited_for():
    async with OpenAIStub() as stub, policy_for(stub) as policy:
        stub.faults.append(Fault(status=429, body=b'{"error": {"message": "pay", "code": "insufficient_quota"}}'))
        with pytest.raises(PolicyError, match="quota is spent"):
            await policy.act(HI, Sampling())
        assert len(stub.posts) == 1


async def test_a_slow_server_runs_into_the_time_limit():
    async with OpenAIStub() as stub, policy_for(stub, timeout_seconds=0.2, max_retries=1) as policy:
        stub.faults.extend([Fault(delay_seconds=5), Fault(delay_seconds=5)])
        with pytest.raises(PolicyError, match=r"no reply within 0.2 s"):
            await policy.act(HI, Sampling())


async def test_nobody_listens():
    policy = OpenAIPolicy("http://127.0.0.1:9/v1", "m", max_retries=1)
    policy._http._first_wait = 0.01
    with pytest.raises(PolicyError, match=r"127\.0\.0\.1:9.*gave up after 2 tries.*Check that the server runs"):
        await policy.act(HI, Sampling())


async def test_a_prompt_too_long_is_told_apart_from_other_refusals():
    too_long = b'{"error": {"message": "This model\'s maximum context length is 10 tokens", "code": "context_length_exceeded"}}'
    async with OpenAIStub() as stub, policy_for(stub) as policy:
        stub.faults.append(Fault(status=400, body=too_long))
        with pytest.raises(PromptTooLong):
            await policy.act(HI, Sampling())
        stub.faults.append(Fault(status=404))
        with pytest.raises(PolicyError, match="check the address"):
            await policy.act(HI, Sampling())


async def test_at_most_max_concurrency_calls_are_in_flight():
    async with OpenAIStub(latency_seconds=0.02) as stub, policy_for(stub, max_concurrency=4) as policy:
        actions = await asyncio.gather(*(policy.act(HI, Sampling()) for _ in range(40)))
    assert len(actions) == 40
    assert stub.most_in_flight == 4


async def test_one_policy_serves_two_event_loops_one_after_the_other():
    with OpenAIStub.in_thread() as stub:
        policy = policy_for(stub)
        for _ in range(2):
            text = await asyncio.to_thread(lambda: asyncio.run(policy.act(HI, Sampling())).text)
            assert text == "ok"


def test_from_params():
    policy = OpenAIPolicy.from_params(EndpointParams(base_url="https://host/v1/", model="m", max_retries=9))
    assert (policy.name, policy._http.base_url, policy._http.max_retries) == ("endpoint:m", "https://host/v1", 9)
    with pytest.raises(ValueError, match="http://"):
        OpenAIPolicy("host:8000", "m")
