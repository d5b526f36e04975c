"""The vLLM policy against the loopback stub: what it asks for, and what it does with replies and refusals."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from openai_server import Fault, OpenAIStub

from rlm_core.policies import ChatRenderer, Message, PolicyError, PromptTooLong, Sampling, VllmPolicy

HI = [Message("user", "hi")]
HELLO, END = 19556, 2


def completion(ids: list[int], reason: str = "stop", **changes: Any) -> dict[str, Any]:
    logprobs = {"tokens": [f"token_id:{i}" for i in ids], "token_logprobs": [-0.25 * (k + 1) for k in range(len(ids))]}
    return {"choices": [{"token_ids": ids, "logprobs": logprobs, "finish_reason": reason, "text": "", **changes}]}


async def test_an_action_holds_what_was_read_and_sampled(renderer: ChatRenderer):
    async with OpenAIStub(completion=lambda body: completion([HELLO, END])) as stub:
        async with VllmPolicy(stub.url, renderer) as policy:
            action = await policy.act(HI, Sampling(temperature=0.5, max_tokens=9, seed=3))
        body = stub.posts[0]
    assert action.text == "Hello"
    assert action.completion_ids == (HELLO, END)
    assert action.logprobs == (-0.25, -0.5)
    assert action.prompt_ids == renderer.prompt_ids(HI) == tuple(body["prompt"])
    assert (action.finish_reason, action.completion_tokens, action.weights_version) == ("stop", 2, 0)
    assert (body["model"], body["temperature"], body["max_tokens"], body["seed"]) == ("stub", 0.5, 9, 3)
    assert (body["top_k"], body["repetition_penalty"], body["stop_token_ids"]) == (0, 1.0, [END])


async def test_a_cut_completion_keeps_its_last_token(renderer: ChatRenderer):
    async with (
        OpenAIStub(completion=lambda body: completion([HELLO, HELLO], "length")) as stub,
        VllmPolicy(stub.url, renderer) as policy,
    ):
        action = await policy.act(HI, Sampling(max_tokens=2))
    assert (action.text, action.finish_reason) == ("HelloHello", "length")


async def test_max_tokens_is_cut_to_the_room_left(renderer: ChatRenderer):
    length = len(renderer.prompt_ids(HI))
    async with (
        OpenAIStub(completion=lambda body: completion([END]), max_model_len=length + 5) as stub,
        VllmPolicy(stub.url, renderer) as policy,
    ):
        await policy.act(HI, Sampling(max_tokens=500))
        assert stub.posts[0]["max_tokens"] == 5
        with pytest.raises(PromptTooLong, match=f"context {length + 5}"):
            await policy.act([Message("user", "hi " * 50)], Sampling())
        assert len(stub.posts) == 1


async def test_a_400_about_length_is_a_prompt_too_long(renderer: ChatRenderer):
    said = b'{"error": {"message": "This model\'s maximum context length is 64 tokens. However, you requested 99"}}'
    async with OpenAIStub(completion=lambda body: completion([END])) as stub, VllmPolicy(stub.url, renderer) as policy:
        stub.faults.append(Fault(status=400, body=said))
        with pytest.raises(PromptTooLong, match="64 tokens"):
            await policy.act(HI, Sampling())
        stub.faults.append(Fault(status=400))
        with pytest.raises(PolicyError, match="injected"):
            await policy.act(HI, Sampling())


@pytest.mark.parametrize(
    "broken",
    [
        completion([HELLO, END], token_ids=None),
        completion([HELLO, END], token_ids=[HELLO]),
        completion([HELLO, END], logprobs=None),
        completion([HELLO], logprobs={"tokens": [f"token_id:{END}"], "token_logprobs": [-1.0]}),
        completion([HELLO], logprobs={"tokens": [f"token_id:{HELLO}"], "token_logprobs": [float("-inf")]}),
        completion([HELLO, END], finish_reason="abort"),
        {"choices": []},
    ],
    ids=["no ids", "fewer ids", "no logprobs", "other tokens", "infinite", "aborted", "no choice"],
)
async def test_replies_that_do_not_fit_are_tried_again_never_used(renderer: ChatRenderer, broken: dict[str, Any]):
    replies = [broken, broken, completion([END])]
    async with (
        OpenAIStub(completion=lambda body: replies.pop(0)) as stub,
        VllmPolicy(stub.url, renderer, max_retries=2) as policy,
    ):
        policy._http._first_wait = 0.01
        assert (await policy.act(HI, Sampling())).completion_ids == (END,)
        replies.extend([broken] * 3)
        with pytest.raises(PolicyError, match="gave up after 3 tries"):
            await policy.act(HI, Sampling())


async def test_hundreds_of_calls_at_once(renderer: ChatRenderer):
    async with (
        OpenAIStub(completion=lambda body: completion([HELLO, END]), latency_seconds=0.3) as stub,
        VllmPolicy(stub.url, renderer) as policy,
    ):
        actions = await asyncio.gather(*(policy.act(HI, Sampling()) for _ in range(300)))
    assert {a.text for a in actions} == {"Hello"}
    assert stub.most_in_flight > 100  # none waits here for another


async def test_the_served_model_is_asked_for_and_checked(renderer: ChatRenderer):
    async with (
        OpenAIStub(completion=lambda body: completion([END]), model="mine") as stub,
        VllmPolicy(stub.url, renderer, model="other") as policy,
    ):
        with pytest.raises(PolicyError, match=r"serves \['mine'\], not 'other'"):
            await policy.act(HI, Sampling())
