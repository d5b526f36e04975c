"""A real vLLM server on the tiny random model, started once: acting, new weights, failures, and what is left behind.

float32, without compilation: the logprobs then agree with transformers to a few 1e-5, and the start is short.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_asyncio
import torch

from rlm_core.policies import (
    Action,
    ChatRenderer,
    Message,
    PolicyError,
    PromptTooLong,
    Sampling,
    VllmPolicy,
    VllmServer,
    VllmServerError,
)
from rlm_core.policies.sampling import log_distribution
from rlm_core.policies.weights import WeightsMismatch

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

TOLERANCE = 2e-4
"""Largest difference of a logprob between vLLM and transformers, both in float32."""
STORY = [Message("system", "Be brief."), Message("user", "Tell a story about a fox.")]


def load(folder: Path) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


@pytest.fixture(scope="module")
def model(tiny_model: Path) -> Any:
    return load(tiny_model)


@pytest.fixture(scope="module")
def other_model(tiny_model: Path) -> Any:
    """The same with one layer's output reversed: other weights, other texts."""
    model = load(tiny_model)
    with torch.no_grad():
        model.model.layers[1].mlp.down_proj.weight.neg_()
    return model


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[VllmServer]:
    folder = tmp_path_factory.mktemp("serve")
    async with VllmServer(
        tiny_model, dtype="float32", max_model_len=256, kv_cache_gib=0.25, eager=True, folder=folder
    ) as server:
        yield server


@pytest_asyncio.fixture(loop_scope="module")
async def policy(server: VllmServer, renderer: ChatRenderer) -> AsyncIterator[VllmPolicy]:
    async with VllmPolicy(server, renderer) as policy:
        yield policy


@torch.no_grad()
def logprobs_of(model: Any, action: Action, sampling: Sampling) -> torch.Tensor:
    """What transformers gives the tokens of `action`, one a completion token."""
    ids = torch.tensor([action.prompt_ids + action.completion_ids])
    logits = model(ids).logits[0, len(action.prompt_ids) - 1 : -1]
    rows = [log_distribution(row, sampling)[token] for row, token in zip(logits, action.completion_ids, strict=True)]
    return torch.stack(rows)


def agrees(model: Any, action: Action, sampling: Sampling) -> bool:
    expected = logprobs_of(model, action, sampling)
    return bool((expected - torch.tensor(action.logprobs)).abs().max() < TOLERANCE)


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(temperature=1.0, max_tokens=40, seed=1),
        Sampling(temperature=0.5, max_tokens=40, seed=2),
        Sampling(temperature=1.3, top_p=0.7, max_tokens=40, seed=3),
        Sampling(temperature=0.0, max_tokens=40),
    ],
    ids=["T=1", "T=0.5", "T=1.3 top_p=0.7", "greedy"],
)
async def test_logprobs_are_those_of_the_distribution_that_was_sampled(
    policy: VllmPolicy, model: Any, sampling: Sampling
):
    action = await policy.act(STORY, sampling)
    assert action.prompt_ids == policy.renderer.prompt_ids(STORY)
    assert len(action.completion_ids) == len(action.logprobs) == 40
    assert action.finish_reason == "length"
    assert policy.renderer.decode(action.completion_ids) == action.text
    assert agrees(model, action, sampling)


async def test_a_sampled_stop_token_is_kept_with_its_logprob_but_not_as_text(
    server: VllmServer, renderer: ChatRenderer, model: Any
):
    greedy = Sampling(temperature=0.0, max_tokens=12)
    async with VllmPolicy(server, renderer) as policy:
        free = await policy.act(STORY, greedy)
    stop = free.completion_ids[5]
    first = free.completion_ids.index(stop)
    async with VllmPolicy(server, renderer, stop_ids=[stop]) as policy:
        stopped = await policy.act(STORY, greedy)
    assert stopped.completion_ids == free.completion_ids[: first + 1]
    assert stopped.finish_reason == "stop"
    assert stopped.text == renderer.decode(free.completion_ids[:first])
    assert agrees(model, stopped, greedy)


async def test_a_turn_goes_on_where_the_last_one_ended(policy: VllmPolicy, model: Any):
    sampling = Sampling(max_tokens=12, seed=4)
    first = await policy.act(STORY, sampling)
    grown = [*STORY, Message("assistant", first.text, token_ids=first.completion_ids), Message("user", "Go on.")]
    second = await policy.act(grown, sampling)
    so_far = first.prompt_ids + first.completion_ids
    assert second.prompt_ids[: len(so_far)] == so_far
    assert agrees(model, second, sampling)


async def test_two_hundred_calls_at_once_each_get_their_own_answer(policy: VllmPolicy, model: Any):
    async def ask(number: int) -> Action:
        return await policy.act([Message("user", f"Number {number}")], Sampling(max_tokens=3 + number % 7, seed=number))

    actions = await asyncio.gather(*(ask(n) for n in range(200)))
    assert [a.completion_tokens for a in actions] == [3 + n % 7 for n in range(200)]
    assert all(f"Number {n}" in policy.renderer.decode(a.prompt_ids) for n, a in enumerate(actions))
    assert all(agrees(model, a, Sampling()) for a in actions[::20])


async def test_a_prompt_too_long(server: VllmServer, policy: VllmPolicy, renderer: ChatRenderer):
    long = [Message("user", "word " * 400)]
    with pytest.raises(PromptTooLong, match="context 256"):
        await policy.act(long, Sampling())
    async with VllmPolicy(server, renderer, max_model_len=10_000) as unaware:
        with pytest.raises(PromptTooLong, match="HTTP 400"):
            await unaware.act(long, Sampling())
    room = 256 - len(renderer.prompt_ids(STORY))
    assert (await policy.act(STORY, Sampling(max_tokens=10_000))).completion_tokens == room


async def test_reload_serves_the_new_weights(
    server: VllmServer, policy: VllmPolicy, model: Any, other_model: Any, tiny_model: Path
):
    greedy = Sampling(temperature=0.0, max_tokens=20)
    before = await policy.act(STORY, greedy)
    version = await server.reload(other_model.state_dict())
    after = await policy.act(STORY, greedy)
    assert (before.weights_version, after.weights_version) == (version - 1, version)
    assert after.completion_ids != before.completion_ids
    assert agrees(other_model, after, greedy)
    assert not agrees(model, after, greedy)

    await server.reload(tiny_model)
    again = await policy.act(STORY, greedy)
    assert (again.completion_ids, again.weights_version) == (before.completion_ids, version + 1)


async def test_calls_during_a_reload_say_which_weights_answered(
    server: VllmServer, policy: VllmPolicy, model: Any, other_model: Any, tiny_model: Path
):
    models = {server.version: model, server.version + 1: other_model}

    async def ask(number: int) -> Action:
        await asyncio.sleep(number * 0.01)
        return await policy.act([Message("user", f"Number {number}")], Sampling(max_tokens=20, seed=number))

    asked = [asyncio.create_task(ask(n)) for n in range(60)]
    await asyncio.sleep(0.3)
    await server.reload(other_model.state_dict())
    actions = await asyncio.gather(*asked)
    assert {a.weights_version for a in actions} == set(models)
    assert all(agrees(models[a.weights_version], a, Sampling()) for a in actions)
    await server.reload(tiny_model)


async def test_weights_of_another_shape_are_refused_and_change_nothing(
    server: VllmServer, policy: VllmPolicy, model: Any
):
    version = server.version
    state = dict(model.state_dict())
    state["model.norm.weight"] = torch.zeros(3)
    del state["model.layers.0.mlp.up_proj.weight"]
    with pytest.raises(WeightsMismatch, match=r"missing 1 .*up_proj.*another shape 1 .*norm"):
        await server.reload(state)
    with pytest.raises(WeightsMismatch, match="unknown"):
        await server.reload({f"base_model.{name}": tensor for name, tensor in model.state_dict().items()})
    action = await policy.act(STORY, Sampling(max_tokens=10, seed=1))
    assert action.weights_version == server.version == version
    assert agrees(model, action, Sampling())


async def test_a_running_server_is_used_by_its_address(
    server: VllmServer, renderer: ChatRenderer, tiny_model: Path, model: Any, tmp_path: Path
):
    async with (
        VllmServer(tiny_model, url=server.url + "/v1", dtype="float32", max_model_len=256, folder=tmp_path) as reused,
        VllmPolicy(reused, renderer) as policy,
    ):
        assert reused.pid is None
        assert agrees(model, await policy.act(STORY, Sampling(max_tokens=5)), Sampling())
    assert server.why_dead() is None
    with pytest.raises(VllmServerError, match=r"serves a context of 256 tokens, serve\.max_model_len asks for 512"):
        async with VllmServer(tiny_model, url=server.url, max_model_len=512, folder=tmp_path):
            pass


async def test_nothing_answers_at_the_address(tiny_model: Path, tmp_path: Path):
    with pytest.raises(VllmServerError, match=r"serve\.url http://127\.0\.0\.1:9: no vLLM server answers"):
        async with VllmServer(tiny_model, url="http://127.0.0.1:9", folder=tmp_path):
            pass


async def test_an_occupied_port_is_named_before_anything_starts(tiny_model: Path, tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(VllmServerError, match=f"serve.port {port} cannot be used"):
            async with VllmServer(tiny_model, port=port, folder=tmp_path):
                pass
    assert not list(tmp_path.glob("slot-?"))


async def test_a_server_that_cannot_start_shows_its_error_and_the_end_of_its_log(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """In place of vLLM: a program that fails as it does, the cause first and much noise after."""
    program = tmp_path / "python"
    noise = "for i in $(seq 40); do echo later noise $i; done"
    program.write_text(f"#!/bin/sh\necho 'ValueError: no head size of 7'\n{noise}\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    with pytest.raises(VllmServerError, match=r"(?s)ended with code 3.*ValueError: no head size of 7.*later noise 40"):
        async with VllmServer(tiny_model, folder=tmp_path / "serve"):
            pass
    assert "later noise" in (tmp_path / "serve" / "last-server.log").read_text()
    assert not list((tmp_path / "serve").glob("slot-?"))


def group(pid: int) -> list[psutil.Process]:
    """Living processes of a process group."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.getpgid(process.pid) == pid and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue
    return found


async def gone(pid: int, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while group(pid) and time.monotonic() < end:  # noqa: ASYNC110
        await asyncio.sleep(0.1)
    return not group(pid)


async def test_a_dead_server_is_an_error_at_once_and_its_children_die_too(server: VllmServer, policy: VllmPolicy):
    """Last of those that use the shared server: it ends it."""
    assert server.pid is not None
    assert len(group(server.pid)) >= 3  # the API server, the engine, its worker
    os.kill(server.pid, signal.SIGKILL)
    start = time.monotonic()
    with pytest.raises(PolicyError, match="the process ended with code -9"):
        await policy.act(STORY, Sampling(max_tokens=5))
    assert time.monotonic() - start < 10
    assert await gone(server.pid, 10)


OWNER = """
    import asyncio, sys
    from rlm_core.policies import VllmServer

    async def main():
        server = VllmServer(sys.argv[1], max_model_len=256, kv_cache_gib=0.25, eager=True, folder=sys.argv[2])
        starting = asyncio.create_task(server.__aenter__())
        while server.pid is None:
            await asyncio.sleep(0.05)
        print(server.pid, flush=True)
        await starting
        await asyncio.sleep(600)

    asyncio.run(main())
"""


async def test_nothing_outlives_an_owner_that_is_killed(tiny_model: Path, tmp_path: Path):
    """The engine and the worker start from processes that vLLM makes itself; they must go as well."""
    owner = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(OWNER), str(tiny_model), str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
    )
    pid = None
    try:
        assert owner.stdout is not None
        pid = int(await asyncio.to_thread(owner.stdout.readline))
        end = time.monotonic() + 180
        while not any("Worker" in " ".join(p.cmdline()) for p in group(pid)):
            assert owner.poll() is None
            assert time.monotonic() < end, "the worker process did not appear"
            await asyncio.sleep(0.2)
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        assert await gone(pid, 10), [p.cmdline() for p in group(pid)]
    finally:
        owner.kill()
        owner.wait()
        if pid is not None and group(pid):
            os.killpg(pid, signal.SIGKILL)
