"""The endpoint over HTTP, in a server of its own thread: the scripted expert, real PDFs, the real REPL."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from rlm_core.cli.ask import read_papers
from rlm_core.papers import Paper
from rlm_core.papers.sample import library_content, write_sample_library
from rlm_core.params import Params
from rlm_core.policies import Action, ExpertPolicy, PolicyError
from rlm_core.serving import RlmService, make_app
from rlm_core.serving.requests import read_request
from rlm_core.serving.stream import EventStream


class Stuck:
    """A policy that answers when it is let go, and counts the calls that were cancelled."""

    name = "stuck"

    def __init__(self) -> None:
        self.calls = self.cancelled = 0
        self.let_go = threading.Event()

    async def act(self, messages: Any, sampling: Any) -> Action:
        self.calls += 1
        try:
            while not self.let_go.is_set():  # noqa: ASYNC110 - set from another thread
                await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return Action('```python\nFINAL(["nothing that any paper says at all, of course"])\n```')


class Broken:
    name = "broken"

    async def act(self, messages: Any, sampling: Any) -> Action:
        raise PolicyError("the model's server is gone")


@contextmanager
def serving(
    policy: Any, library: dict[str, Paper], *, api_key: str | None = None, **limits: int
) -> Iterator[httpx.Client]:
    service = RlmService(policy, library, Params(), model="rlm", **limits)
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(make_app(service, api_key=api_key), log_level="error"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        with httpx.Client(base_url=url, timeout=120, trust_env=False) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Paper]:
    folder = tmp_path_factory.mktemp("pdfs")
    write_sample_library(folder, topics=1, papers_per_topic=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return read_papers(folder)


@pytest.fixture(scope="module")
def expert(library: dict[str, Paper]) -> Iterator[httpx.Client]:
    with serving(ExpertPolicy(), library) as client:
        yield client


def question() -> str:
    paper = library_content(topics=1, papers_per_topic=2)[0]
    phrase = next(p.phrase for s in paper.sections for p in s.paragraphs if p.phrase)
    return f'Which passage discusses "{phrase}"?'


def body(text: str = "q", **fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], **fields}


def wait_for(condition: Any) -> None:
    end = time.monotonic() + 20
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    assert condition()


def test_models_and_papers_are_listed(expert: httpx.Client, library: dict[str, Paper]) -> None:
    assert [m["id"] for m in expert.get("/v1/models").json()["data"]] == ["rlm"]
    assert expert.get("/v1/models/rlm").json()["object"] == "model"
    assert {p["id"] for p in expert.get("/v1/papers").json()["data"]} == set(library)
    assert expert.get("/health").json() == {"status": "ok", "running": 0}


def test_an_answer_is_evidence_with_paper_and_page(expert: httpx.Client, library: dict[str, Paper]) -> None:
    reply = expert.post("/v1/chat/completions", json=body(question(), model="rlm")).json()
    (choice,) = reply["choices"]
    evidence = reply["rlm"]["evidence"]
    assert (reply["object"], choice["finish_reason"], reply["rlm"]["status"]) == ("chat.completion", "stop", "answered")
    assert evidence
    for passage in evidence:
        paper = library[passage["paper_id"]]
        assert passage["text"].split()[0] in paper.text
        assert passage["score"] > 0.8
        assert f"({paper.id}), page {passage['page']}" in choice["message"]["content"]


def test_papers_narrow_what_is_read(expert: httpx.Client, library: dict[str, Paper]) -> None:
    last = sorted(library)[-1]
    reply = expert.post("/v1/chat/completions", json=body(question(), papers=[last])).json()
    assert {passage["paper_id"] for passage in reply["rlm"]["evidence"]} <= {last}
    assert reply["rlm"]["children"] == 0


def test_a_stream_tells_the_trajectory_and_then_the_same_answer(expert: httpx.Client) -> None:
    whole = expert.post("/v1/chat/completions", json=body(question())).json()
    asked = body(question(), stream=True, stream_options={"include_usage": True})
    with expert.stream("POST", "/v1/chat/completions", json=asked) as reply:
        assert reply.headers["content-type"].startswith("text/event-stream")
        lines = [line.removeprefix("data: ") for line in reply.iter_lines() if line.startswith("data: ")]
    assert lines.pop() == "[DONE]"
    chunks = [json.loads(line) for line in lines]
    assert len({chunk["id"] for chunk in chunks}) == 1
    usage = chunks.pop()
    assert (usage["choices"], set(usage["usage"])) == ([], {"prompt_tokens", "completion_tokens", "total_tokens"})
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    thought = "".join(delta.get("reasoning_content", "") for delta in deltas)
    assert deltas[0]["role"] == "assistant"
    assert "rlm_query_batched" in thought
    assert "child: " in thought
    assert "".join(d.get("content", "") for d in deltas) == whole["choices"][0]["message"]["content"]
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert chunks[-1]["rlm"]["evidence"] == whole["rlm"]["evidence"]


def test_the_openai_client_reads_both(expert: httpx.Client) -> None:
    from openai import OpenAI

    client = OpenAI(base_url=f"{expert.base_url}/v1", api_key="none")
    messages: Any = [{"role": "user", "content": question()}]
    whole = client.chat.completions.create(model="rlm", messages=messages)
    parts = [c.choices[0].delta.content or "" for c in client.chat.completions.create(
        model="rlm", messages=messages, stream=True
    )]  # fmt: skip
    assert "".join(parts) == whole.choices[0].message.content
    assert whole.rlm["evidence"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("sent", "status", "told"),
    [
        ({}, 400, "messages: Field required"),
        ({"messages": []}, 400, "messages: List should have at least 1 item"),
        ({"messages": [{"role": "system", "content": "x"}]}, 400, "none has role 'user'"),
        ({"messages": [{"role": "user", "content": " "}]}, 400, "is empty"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, 400, "'image_url' cannot be read"),
        (body(model="gpt"), 404, "model 'gpt' is not served here; 'rlm' is"),
        (body(papers=["none"]), 400, "no paper 'none'; GET /v1/papers"),
        (body(n=2), 400, "n: Input should be 1"),
        (body(tools=[{"type": "function"}]), 400, "tools: this endpoint answers with evidence"),
        (body(temperature=-1), 400, "temperature"),
    ],
)
def test_bad_requests_are_told_in_json(expert: httpx.Client, sent: Any, status: int, told: str) -> None:
    reply = expert.post("/v1/chat/completions", json=sent)
    assert reply.status_code == status
    assert told in reply.json()["error"]["message"]


def test_bodies_that_are_not_json_and_paths_that_are_not_there(expert: httpx.Client) -> None:
    path, json_type = "/v1/chat/completions", {"content-type": "application/json"}
    assert (
        expert.post(path, content=b"{", headers=json_type).json()["error"]["message"].startswith("the body is not JSON")
    )
    assert expert.post(path, content=b"{}", headers={"content-type": "text/plain"}).status_code == 415
    assert expert.post(path, content=b"x" * 1_100_000, headers=json_type).status_code == 413
    assert expert.get(path).status_code == 405
    assert "/v1/models" in expert.get("/v2/nothing").json()["error"]["message"]


def test_a_policy_that_fails_is_a_502_and_an_error_event(library: dict[str, Paper]) -> None:
    with serving(Broken(), library) as client:
        reply = client.post("/v1/chat/completions", json=body())
        assert (reply.status_code, reply.json()["error"]["code"]) == (502, "policy_failed")
        assert "server is gone" in reply.json()["error"]["message"]
        with client.stream("POST", "/v1/chat/completions", json=body(stream=True)) as stream:
            lines = [line for line in stream.iter_lines() if "error" in line]
        assert "server is gone" in json.loads(lines[0].removeprefix("data: "))["error"]["message"]


def test_a_client_that_goes_away_ends_its_tree(library: dict[str, Paper]) -> None:
    policy = Stuck()
    with serving(policy, library, concurrency=1) as client:
        sent = json.dumps(body()).encode()
        with socket.create_connection((client.base_url.host, client.base_url.port or 0)) as plain:
            head = f"Host: x\r\nContent-Type: application/json\r\nContent-Length: {len(sent)}"
            plain.sendall(f"POST /v1/chat/completions HTTP/1.1\r\n{head}\r\n\r\n".encode() + sent)
            wait_for(lambda: policy.calls == 1)
        wait_for(lambda: policy.cancelled == 1)
        with client.stream("POST", "/v1/chat/completions", json=body(stream=True)) as stream:
            lines = stream.iter_lines()
            assert "assistant" in next(lines)
            wait_for(lambda: policy.calls == 2)
        wait_for(lambda: policy.cancelled == 2)
        wait_for(lambda: client.get("/health").json()["running"] == 0)
        policy.let_go.set()
        reply = client.post("/v1/chat/completions", json=body()).json()
    assert reply["rlm"]["evidence"][0]["paper_id"] is None
    assert "in none of the papers" in reply["choices"][0]["message"]["content"]


async def test_a_stream_that_nobody_takes_ends_with_its_client(library: dict[str, Paper]) -> None:
    """The client goes while the server waits to write to it: nothing of its tree runs on when the reply is over."""
    service = RlmService(Stuck(), library, Params(), model="rlm")
    request = read_request(body(stream=True))
    stream = EventStream(service, service.check(request), request, {"id": "x"})
    gone = asyncio.Event()

    async def receive() -> Any:
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message.get("body"):
            gone.set()
            await asyncio.sleep(60)

    await asyncio.wait_for(stream({"type": "http"}, receive, send), 20)
    assert service.running == 0
    assert [t.get_name() for t in asyncio.all_tasks() - {asyncio.current_task()}] == []


def test_so_many_run_so_many_wait_and_more_are_refused(library: dict[str, Paper]) -> None:
    policy = Stuck()
    with serving(policy, library, concurrency=2, waiting=1) as client:
        statuses: list[int] = []

        def ask() -> None:
            statuses.append(client.post("/v1/chat/completions", json=body()).status_code)

        threads = [threading.Thread(target=ask) for _ in range(5)]
        for thread in threads:
            thread.start()
        wait_for(lambda: len(statuses) == 2)  # two run, one waits, two are refused at once
        assert policy.calls == 2
        refused = client.post("/v1/chat/completions", json=body())
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "5")
        assert client.post("/v1/chat/completions", json=body(stream=True)).status_code == 429
        policy.let_go.set()
        for thread in threads:
            thread.join()
    assert sorted(statuses) == [200, 200, 200, 429, 429]


def test_a_key_is_asked_for_where_one_is_set(library: dict[str, Paper]) -> None:
    with serving(ExpertPolicy(), library, api_key="secret") as client:
        assert client.get("/v1/models").status_code == 401
        assert client.post("/v1/chat/completions", json=body()).status_code == 401
        assert client.get("/v1/models", headers={"Authorization": "Bearer secret"}).status_code == 200
        assert client.get("/health").status_code == 200


def test_a_taken_port_is_told(library: dict[str, Paper], tmp_path: Path) -> None:
    from rlm_core.cli.serve import listen

    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ValueError, match="--port 0 takes a free port"):
        listen("127.0.0.1", taken.getsockname()[1])


def test_the_command_serves_until_it_is_interrupted(tmp_path: Path) -> None:
    write_sample_library(tmp_path / "pdfs", topics=1, papers_per_topic=1)
    command = [sys.executable, "-c", "from rlm_core.cli.main import app; app()", "serve", "--port", "0"]
    process = subprocess.Popen(
        [*command, "--papers", "pdfs", "--model", "expert"],
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = next(line for line in process.stdout if "http://" in line)
        url = re.search(r"http://\S+/v1", line)
        assert url is not None, line
        assert "expert over 1 papers" in line
        end = time.monotonic() + 30
        while time.monotonic() < end:
            try:
                reply = httpx.get(f"{url[0]}/models", trust_env=False)
                break
            except httpx.ConnectError:
                time.sleep(0.05)
        assert reply.json()["data"][0]["id"] == "rlm"
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    finally:
        process.kill()
