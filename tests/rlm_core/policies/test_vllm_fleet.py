"""Several servers behind one policy: shared load, deaths and returns, the same weights everywhere. Servers are stubs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from vllm_stub import BORN_WITH, VllmStub, until

from rlm_core.params import ParamsError, validate_params
from rlm_core.policies import (
    ChatRenderer,
    Message,
    PolicyError,
    Sampling,
    VllmFleet,
    VllmPolicy,
    VllmServer,
    VllmServerError,
    vllm_fleet,
)

HI = [Message("user", "hi")]


@pytest.fixture
async def stubs() -> AsyncIterator[list[VllmStub]]:
    async with VllmStub() as one, VllmStub() as two, VllmStub() as three:
        yield [one, two, three]


@pytest.fixture
def make_fleet(tiny_model: Path, tmp_path: Path) -> Callable[..., VllmFleet]:
    def make(stubs: list[VllmStub], **options: Any) -> VllmFleet:
        urls = [f"{stub.url}/v1" if number % 2 else stub.url for number, stub in enumerate(stubs)]
        defaults = {"max_model_len": 128, "folder": tmp_path, "check_seconds": 0.05, "patience_seconds": 5.0}
        return VllmFleet(tiny_model, urls=urls, **{**defaults, **options})

    return make


async def test_requests_go_to_the_least_loaded_server(
    stubs: list[VllmStub], make_fleet: Callable[..., VllmFleet], renderer: ChatRenderer
) -> None:
    for stub in stubs:
        stub.hold.clear()
    async with make_fleet(stubs) as fleet, VllmPolicy(fleet, renderer) as policy:
        first = [asyncio.create_task(policy.act(HI, Sampling(seed=n))) for n in range(6)]
        await until(lambda: [stub.in_flight for stub in stubs] == [2, 2, 2])
        stubs[1].hold.set()
        await until(lambda: stubs[1].in_flight == 0)
        stubs[1].hold.clear()
        more = [asyncio.create_task(policy.act(HI, Sampling())) for _ in range(3)]
        # 2, 0, 2 under way: the next two go to the idle one, the third to any of 2, 2, 2
        await until(lambda: sum(stub.in_flight for stub in stubs) == 7)
        assert stubs[1].in_flight >= 2
        for stub in stubs:
            stub.hold.set()
        actions = await asyncio.gather(*first, *more)
    assert all(len(action.completion_ids) == 1 for action in actions)
    assert {body["model"] for body in stubs[2].bodies} == {f"m{stubs[2].port}"}, "each server has its own name for it"
    assert policy.max_model_len == 256


async def test_what_was_under_way_on_a_server_that_dies_is_answered_by_another_with_the_same_seed(
    stubs: list[VllmStub], make_fleet: Callable[..., VllmFleet], renderer: ChatRenderer
) -> None:
    for stub in stubs:
        stub.hold.clear()
    async with make_fleet(stubs) as fleet, VllmPolicy(fleet, renderer) as policy:
        calls = [asyncio.create_task(policy.act(HI, Sampling(seed=100 + n))) for n in range(9)]
        await until(lambda: all(stub.in_flight == 3 for stub in stubs))
        seeds = {body["seed"] for body in stubs[0].bodies}
        await stubs[0].kill()
        for stub in stubs[1:]:
            stub.hold.set()
        assert len(await asyncio.gather(*calls)) == 9
        assert set(fleet.in_flight) == {stubs[1].url, stubs[2].url}
    assert seeds <= {body["seed"] for stub in stubs[1:] for body in stub.bodies}


async def test_a_server_that_comes_back_gets_the_present_weights_before_its_first_request(
    stubs: list[VllmStub], make_fleet: Callable[..., VllmFleet], renderer: ChatRenderer, tiny_model: Path
) -> None:
    async with make_fleet(stubs) as fleet, VllmPolicy(fleet, renderer) as policy:
        await stubs[0].kill()
        await until(lambda: len(fleet.in_flight) == 2)
        assert await fleet.reload(tiny_model) == 1
        assert (await policy.act(HI, Sampling())).weights_version == 1
        await stubs[0].start()
        assert stubs[0].weights == BORN_WITH
        await until(lambda: len(fleet.in_flight) == 3)
        assert stubs[0].weights.startswith("weights-")
        actions = await asyncio.gather(*(policy.act(HI, Sampling()) for _ in range(30)))
        assert {action.weights_version for action in actions} == {1}
        assert stubs[0].served_with
        assert BORN_WITH not in stubs[0].served_with
        assert await fleet.reload(tiny_model) == 2


async def test_deaths_and_returns_lose_no_request(
    stubs: list[VllmStub], make_fleet: Callable[..., VllmFleet], renderer: ChatRenderer, tiny_model: Path
) -> None:
    async def killer(fleet: VllmFleet) -> None:
        for stub in (*stubs, stubs[0]):
            await stub.kill()
            await until(lambda stub=stub: stub.url not in fleet.in_flight)  # a real one takes many checks to start
            await stub.start()
            await until(lambda stub=stub: stub.url in fleet.in_flight)
            await until(lambda before=fleet.version: fleet.version > before)  # new weights between two deaths

    async def caller(policy: VllmPolicy, fleet: VllmFleet, deaths: asyncio.Task[None]) -> int:
        answered = 0
        while not deaths.done():
            before = fleet.version
            action = await policy.act(HI, Sampling())
            assert before <= action.weights_version <= fleet.version
            answered += 1
        return answered

    async with make_fleet(stubs) as fleet, VllmPolicy(fleet, renderer) as policy:
        deaths = asyncio.create_task(killer(fleet))
        callers = [asyncio.create_task(caller(policy, fleet, deaths)) for _ in range(8)]
        while not deaths.done():
            await fleet.reload(tiny_model)
            await asyncio.sleep(0.2)
        await deaths
        counts = await asyncio.gather(*callers)
        assert min(counts) >= 1
        assert fleet.version >= 2
        await until(lambda: len(fleet.in_flight) == 3)
    assert all(BORN_WITH not in stub.served_with for stub in stubs)


async def test_servers_that_nobody_could_watch_get_their_weights_again(
    stubs: list[VllmStub],
    make_fleet: Callable[..., VllmFleet],
    renderer: ChatRenderer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(vllm_fleet, "UNSEEN_SECONDS", 0.3)
    async with make_fleet(stubs[:2], health_seconds=0.2) as fleet, VllmPolicy(fleet, renderer) as policy:
        await policy.act(HI, Sampling())
        for stub in stubs[:2]:
            stub.weights = BORN_WITH  # restarted while this process computed something
        time.sleep(0.5)  # noqa: ASYNC251 - it blocks the loop, as a training step does
        await asyncio.gather(*(policy.act(HI, Sampling()) for _ in range(8)))
        await until(lambda: len(fleet.in_flight) == 2)
    assert all(BORN_WITH not in stub.served_with for stub in stubs)


async def test_a_silent_server_is_left_out_with_its_requests_tried_elsewhere(
    stubs: list[VllmStub], make_fleet: Callable[..., VllmFleet], renderer: ChatRenderer
) -> None:
    async with (
        make_fleet(stubs[:2], silent_seconds=0.2, health_seconds=0.2) as fleet,
        VllmPolicy(fleet, renderer) as policy,
    ):
        stubs[0].hold.clear()
        calls = [asyncio.create_task(policy.act(HI, Sampling())) for _ in range(2)]
        await until(lambda: stubs[0].in_flight == 1)
        stubs[0].silent = True
        await asyncio.gather(*calls)
        assert len(stubs[1].served_with) == 2
        stubs[0].hold.set()


async def test_a_living_server_that_fails_is_passed_over_not_left_out(
    stubs: list[VllmStub], make_fleet: Callable[..., VllmFleet], renderer: ChatRenderer
) -> None:
    stubs[0].broken = True
    async with make_fleet(stubs[:2]) as fleet, VllmPolicy(fleet, renderer) as policy:
        await policy.act(HI, Sampling())
        assert len(fleet.in_flight) == 2
        stubs[1].broken = True
        fleet._tries = 3
        with pytest.raises(PolicyError, match=r"after 3 tries on .*engine is confused"):
            await policy.act(HI, Sampling())


async def test_while_none_lives_requests_wait(
    stubs: list[VllmStub], make_fleet: Callable[..., VllmFleet], renderer: ChatRenderer
) -> None:
    async with make_fleet(stubs[:2], patience_seconds=0.3) as fleet, VllmPolicy(fleet, renderer) as policy:
        await policy.act(HI, Sampling())
        await asyncio.gather(*(stub.kill() for stub in stubs[:2]))
        with pytest.raises(PolicyError, match=r"none of the vLLM servers .* for 0.3 s; start one again"):
            await policy.act(HI, Sampling())
        fleet._patience = 10.0
        waiting = asyncio.create_task(policy.act(HI, Sampling()))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        await stubs[1].start()
        await waiting
        await asyncio.gather(*(stub.kill() for stub in stubs[:2]))
        await until(lambda: not fleet.in_flight)
        fleet._patience = 0.3
        with pytest.raises(VllmServerError, match="none of the vLLM servers"):
            await fleet.reload(fleet.model)
        assert fleet.version == 0


async def test_a_server_that_refuses_new_weights_is_left_out(
    stubs: list[VllmStub], make_fleet: Callable[..., VllmFleet], renderer: ChatRenderer
) -> None:
    async with make_fleet(stubs[:2]) as fleet, VllmPolicy(fleet, renderer) as policy:
        stubs[0].refuses_weights = True
        assert await fleet.reload(fleet.model) == 1
        assert list(fleet.in_flight) == [stubs[1].url]
        assert (await policy.act(HI, Sampling())).weights_version == 1
        stubs[0].refuses_weights = False
        await until(lambda: len(fleet.in_flight) == 2)
        stubs[0].refuses_weights = stubs[1].refuses_weights = True
        with pytest.raises(VllmServerError, match="no server took weights 2"):
            await fleet.reload(fleet.model)
        assert fleet.version == 1


async def test_a_start_needs_one_server_and_says_what_is_wrong(
    stubs: list[VllmStub], make_fleet: Callable[..., VllmFleet]
) -> None:
    await stubs[0].kill()
    async with make_fleet(stubs[:2]) as fleet:
        assert list(fleet.in_flight) == [stubs[1].url]
        await stubs[0].start()
        await until(lambda: len(fleet.in_flight) == 2)
    await stubs[0].kill()
    with pytest.raises(VllmServerError, match=f"no vLLM server answers at {stubs[0].url}"):
        await make_fleet(stubs[:1]).__aenter__()
    with pytest.raises(VllmServerError, match="context of 256 tokens"):
        await make_fleet(stubs[1:], max_model_len=512).__aenter__()


def test_params_take_one_address_or_several(tiny_model: Path) -> None:
    one = validate_params({"serve": {"url": "http://a:8000"}}).serve
    two = validate_params({"serve": {"url": ["http://a:8000", "http://b:8000"]}}).serve
    assert isinstance(VllmServer.from_params(one, tiny_model), VllmServer)
    fleet = VllmServer.from_params(two, tiny_model)
    assert isinstance(fleet, VllmFleet)
    assert fleet.url == "http://a:8000, http://b:8000"
    for bad in ([], ["http://a:8000", "http://a:8000"]):
        with pytest.raises(ParamsError, match="list of different addresses"):
            validate_params({"serve": {"url": bad}})
