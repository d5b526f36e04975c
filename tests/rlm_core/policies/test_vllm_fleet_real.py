"""Two real vLLM servers behind one policy; one is killed with -9 and started again."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from rlm_core.policies import ChatRenderer, Message, Sampling, VllmFleet, VllmPolicy, VllmServer
from rlm_core.policies.server_process import free_port

pytestmark = pytest.mark.proof

OPTIONS: dict[str, Any] = {"max_model_len": 128, "kv_cache_gib": 0.1, "eager": True, "dtype": "float32"}
HI = [Message("user", "hi")]
GREEDY = Sampling(temperature=0.0, max_tokens=12)


async def test_a_killed_server_comes_back_with_the_trained_weights(
    tiny_model: Path, renderer: ChatRenderer, tmp_path: Path
) -> None:
    from safetensors.torch import load_file

    ports = [free_port(), free_port()]
    servers = [VllmServer(tiny_model, port=port, folder=tmp_path, **OPTIONS) for port in ports]
    for server in servers:
        await server.__aenter__()
    urls = [server.url for server in servers]
    try:
        async with (
            VllmFleet(tiny_model, urls=urls, max_model_len=128, dtype="float32", folder=tmp_path) as fleet,
            VllmPolicy(fleet, renderer) as policy,
            VllmPolicy(urls[0], renderer) as first,
            VllmPolicy(urls[1], renderer) as second,
        ):
            before = await policy.act(HI, GREEDY)
            files = sorted(tiny_model.glob("*.safetensors"))
            state = {name: tensor for file in files for name, tensor in load_file(file).items()}
            changed = {name: tensor.flip(0) if tensor.ndim == 1 else -tensor for name, tensor in state.items()}
            assert await fleet.reload(changed) == 1
            trained = await policy.act(HI, GREEDY)
            assert trained.weights_version == 1
            assert trained.completion_ids != before.completion_ids
            for alone in (first, second):
                assert (await alone.act(HI, GREEDY)).completion_ids == trained.completion_ids

            calls = [asyncio.create_task(policy.act(HI, Sampling(seed=n, max_tokens=60))) for n in range(16)]
            await asyncio.sleep(0.2)
            assert servers[0].pid is not None
            os.killpg(servers[0].pid, signal.SIGKILL)
            answers = await asyncio.gather(*calls)
            assert {answer.weights_version for answer in answers} == {1}
            again = await policy.act(HI, Sampling(seed=3, max_tokens=60))
            assert again.completion_ids == answers[3].completion_ids, "the same seed, whichever server answers"
            assert list(fleet.in_flight) == [urls[1]]

            await servers[0].__aexit__(None, None, None)
            servers[0] = VllmServer(tiny_model, port=ports[0], folder=tmp_path, **OPTIONS)
            await servers[0].__aenter__()
            async with asyncio.timeout(60):
                while len(fleet.in_flight) < 2:  # noqa: ASYNC110 - the fleet's own watch brings it about
                    await asyncio.sleep(0.1)
            assert (await first.act(HI, GREEDY)).completion_ids == trained.completion_ids
    finally:
        for server in servers:
            await server.__aexit__(None, None, None)
