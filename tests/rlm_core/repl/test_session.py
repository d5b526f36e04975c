"""A session and its fork server: misuse, missing layers, a server that dies, many at once."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest

from rlm_core.repl import Repl, ReplLimits, SandboxUnavailable, forkserver


async def test_misuse_is_an_error_of_the_caller() -> None:
    repl = Repl.open("text")
    with pytest.raises(RuntimeError, match="not open"):
        await repl.execute("1")
    async with repl:
        first = asyncio.create_task(repl.execute("import time\ntime.sleep(0.2)"))
        await asyncio.sleep(0.05)
        with pytest.raises(RuntimeError, match="runs a block already"):
            await repl.execute("1")
        await first
    with pytest.raises(ValueError, match="sandbox must be"):
        Repl.open("text", sandbox="maybe")  # type: ignore[arg-type]


async def test_without_a_sandbox_it_warns_on_every_open(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="rlm.repl"):
        for _ in range(2):
            async with Repl.open("text", sandbox="none") as repl:
                assert (await repl.execute("len(context)")).stdout == "4\n"
                assert (
                    await repl.execute("import subprocess\nsubprocess.run(['/bin/true']).returncode")
                ).stdout == "0\n"
    assert len([r for r in caplog.records if "unprotected" in r.message]) == 2


@pytest.mark.parametrize("missing", ["landlock", "seccomp"])
async def test_it_refuses_to_run_without_a_required_layer(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    server = await asyncio.to_thread(forkserver.ForkServer.start, sandbox=True, without=[missing])
    try:
        monkeypatch.setitem(forkserver._servers, True, server)
        with pytest.raises(SandboxUnavailable, match=f"{missing} is missing"):
            async with Repl.open("text"):
                pass
    finally:
        server.stop()


@pytest.mark.parametrize("without", [["namespaces"], ["own root"], ["own user"], ["namespaces", "own user"]])
async def test_the_required_layers_hold_alone(without: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extras there is no scratch folder, and perhaps no thread, but the same things are refused."""
    server = await asyncio.to_thread(forkserver.ForkServer.start, sandbox=True, without=without)
    try:
        assert server.report.full, server.report.explain()
        monkeypatch.setitem(forkserver._servers, True, server)
        async with Repl.open("text", ReplLimits(wall_seconds=5)) as repl:
            for attempt in (
                "open('/etc/passwd')",
                "open('/tmp/x', 'w')",
                "open('/proc/self/environ')",
                "import os; os.fork()",
            ):
                result = await repl.execute(attempt)
                assert result.error is not None, attempt
                assert "Error" in result.error
            assert (await repl.execute("import csv, sqlite3\nlen(context)")).stdout == "4\n"
    finally:
        server.stop()


async def test_a_dead_fork_server_is_replaced() -> None:
    async with Repl.open("text") as repl:
        server = await forkserver.get_async(sandbox=True)
        server._process.kill()
        result = await repl.execute("import time\ntime.sleep(5)")
        assert result.killed
        for _ in range(100):
            if not server.alive:
                break
            await asyncio.sleep(0.02)
        assert (await repl.execute("40 + 2")).stdout.endswith("42\n")


async def test_fifty_at_once() -> None:
    repls = [Repl.open(f"context {n}") for n in range(50)]
    start = time.monotonic()
    await asyncio.gather(*(repl.__aenter__() for repl in repls))
    try:
        results = await asyncio.gather(*(repl.execute("FINAL(context)") for repl in repls))
        assert [r.final for r in results] == [f"context {n}" for n in range(50)]
    finally:
        await asyncio.gather(*(repl.__aexit__(None, None, None) for repl in repls))
    assert time.monotonic() - start < 20
