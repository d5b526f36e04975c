"""Rollouts against a server that fails in each way: retried, then an error of that tree; never an answer, never a zero."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

from rlm_core.policies import OpenAIPolicy
from rlm_core.records import Query, Status
from rlm_core.rollouts import RolloutConfig, failures, run_rollouts

CONFIG = RolloutConfig(max_turns=2, wall_seconds=60)
ANSWER = "```python\nFINAL(len(context))\n```"
Fault = Callable[[asyncio.StreamWriter], Awaitable[None]]


def response(status: str, body: bytes, *headers: str, length: int | None = None) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body) if length is None else length}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def completion(text: str) -> bytes:
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return json.dumps({"choices": [choice], "usage": {"prompt_tokens": 5, "completion_tokens": 3}}).encode()


def sends(data: bytes) -> Fault:
    async def act(writer: asyncio.StreamWriter) -> None:
        writer.write(data)

    return act


async def stays_silent(writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(1.0)


FAULTS: dict[str, Fault] = {
    "429 with Retry-After": sends(response("429 Too Many Requests", b"{}", "Retry-After: 0")),
    "500": sends(response("500 Internal Server Error", b"broken")),
    "cut in the body": sends(response("200 OK", completion(ANSWER)[:40], length=900)),
    "cut in the header": sends(b"HTTP/1.1 200 OK\r\nContent-"),
    "closed at once": sends(b""),
    "no JSON": sends(response("200 OK", b"<html>maintenance</html>")),
    "no choices": sends(response("200 OK", b'{"choices": []}')),
    "an answer that is no text": sends(response("200 OK", b'{"choices": [{"message": {"content": {"a": 1}}}]}')),
    "slow": stays_silent,
}


class Server:
    """Serves `text`, except to requests that mention "unlucky": the first `times` of those meet the fault."""

    def __init__(self, fault: Fault, times: int) -> None:
        self.fault, self.left = fault, times
        self.unlucky = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(int(x.split(b":")[1]) for x in head.split(b"\r\n") if x.lower().startswith(b"content-length"))
            body = await reader.readexactly(length)
            if b"unlucky" in body:
                self.unlucky += 1
                if self.left > 0:
                    self.left -= 1
                    await self.fault(writer)
                    return
            writer.write(response("200 OK", completion(ANSWER), "Connection: close"))
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("lasting", [False, True], ids=["passing", "lasting"])
async def test_a_fault_is_retried_then_an_error_of_that_tree(
    kind: str, lasting: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server(FAULTS[kind], 99 if lasting else 1)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1"
    questions = {"first": "fine", "second": "unlucky", "third": "fine"}
    queries = [Query(id=name, question=question, context="12345") for name, question in questions.items()]
    async with listener, OpenAIPolicy(url, "m", max_retries=1, timeout_seconds=0.5) as policy:
        monkeypatch.setattr(policy._http, "_first_wait", 0.01)
        trees = await run_rollouts(queries, policy, CONFIG)
    assert [trees[0].answer, trees[2].answer] == [5, 5]
    assert server.unlucky == 2
    bad = trees[1]
    if lasting:
        assert (bad.status, bad.answer, bad.turns) == (Status.FAILED, None, ())
        assert "gave up after 2 tries" in bad.failure
        assert failures(bad) == [f"second.0: {bad.failure}"]
    else:
        assert (bad.status, bad.answer, failures(bad)) == (Status.ANSWERED, 5, [])


async def test_a_server_that_is_not_there_fails_every_tree() -> None:
    probe = await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0)
    port = probe.sockets[0].getsockname()[1]
    probe.close()
    await probe.wait_closed()
    async with OpenAIPolicy(f"http://127.0.0.1:{port}/v1", "m", max_retries=0) as policy:
        (tree,) = await run_rollouts([Query(id="q", question="?", context="x")], policy, CONFIG)
    assert (tree.status, tree.answer) == (Status.FAILED, None)
    assert "gave up after 1 tries" in tree.failure
