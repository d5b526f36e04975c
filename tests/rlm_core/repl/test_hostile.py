"""Programs that try to break out: each is stopped, the host lives, the next block is served or refused with a reason."""

from __future__ import annotations

import asyncio
import os
import runpy
from pathlib import Path
from typing import Any

import pytest

from rlm_core.repl import ExecutionResult, Repl, ReplLimits, probe

TOKEN = "swordfish-7351"
LIMITS = ReplLimits(wall_seconds=0.6, memory_mb=160, output_chars=500, scratch_mb=2, threads=8, cpu_seconds=10)
_HERE = runpy.run_path(str(Path(__file__).with_name("programs.py")))
PROGRAMS: dict[str, dict[str, str]] = _HERE["PROGRAMS"]
CASES = [(kind, name) for kind, programs in PROGRAMS.items() for name in programs]


class Target:
    """What a program could harm: a file with a secret, a listening port, the host's environment, a neighbour."""

    def __init__(self, folder: Path) -> None:
        self.secret = folder / "secret.txt"
        self.secret.write_text(TOKEN)
        self.mtime = self.secret.stat().st_mtime_ns
        self.connections = 0
        self.port = 0
        self.server: asyncio.Server | None = None

    async def listen(self) -> None:
        self.server = await asyncio.start_server(self._on_connection, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]

    def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        writer.close()

    def fill(self, code: str) -> str:
        project = Path(__file__).resolve().parents[3]
        values = {
            "secret": self.secret,
            "host": os.getpid(),
            "port": self.port,
            "home": Path.home(),
            "project": project,
        }
        return str(_HERE["PRELUDE"] + code.format(token=TOKEN, **values))

    def unharmed(self) -> bool:
        same = self.secret.read_text() == TOKEN and self.secret.stat().st_mtime_ns == self.mtime
        probes = [Path("/tmp/rlm-repl-probe"), Path("/dev/shm/rlm-repl-probe")]
        return same and self.connections == 0 and not any(p.exists() for p in probes)


def test_there_are_enough_programs_of_every_kind() -> None:
    assert len(PROGRAMS) == 12
    assert len(CASES) >= 60
    assert all(len(programs) >= 5 for programs in PROGRAMS.values())


def test_the_probe_finds_a_full_sandbox() -> None:
    report = probe()
    assert report.full, report.explain()


@pytest.mark.parametrize(("kind", "name"), CASES, ids=[f"{kind}: {name}" for kind, name in CASES])
async def test_program_is_contained(kind: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLM_TEST_TOKEN", TOKEN)
    target = Target(tmp_path)
    await target.listen()
    calls: list[tuple[str, dict[str, Any]]] = []

    async def subcalls(call: str, arguments: dict[str, Any]) -> str:
        calls.append((call, arguments))
        return "reply"

    pids: set[int | None] = set()
    async with Repl.open("neighbour") as neighbour, Repl.open("text", LIMITS, subcalls) as repl:
        pids |= {repl.pid, neighbour.pid}
        result = await repl.execute(target.fill(PROGRAMS[kind][name]))
        assert result.final in (None, ["?"]), result
        assert TOKEN not in result.stdout.replace(target.secret.name, "")
        assert result.killed == (result.error is not None and "All variables are lost" in result.error)
        assert len(result.stdout) <= LIMITS.output_chars + 200
        assert len(result.error or "") <= LIMITS.error_chars + 200
        assert target.unharmed()
        assert all(call in ("llm_query",) and set(arguments) == {"prompt"} for call, arguments in calls)

        await asyncio.sleep(0.1 if kind in ("threads", "forgery") else 0)
        _assert_served_or_refused(await repl.execute("print(40 + 2)"))
        for _ in range(3):
            again = await repl.execute("FINAL(context)")
            pids.add(repl.pid)
            if not again.killed:
                break
        assert again.final == "text" or name in ("None overwritten", "the worker's own frames"), again
        served = await neighbour.execute("FINAL(context)")
        assert (served.final, served.killed) == ("neighbour", False)
    assert target.unharmed()
    assert [pid for pid in pids if pid is not None and Path(f"/proc/{pid}").exists()] == []
    assert target.server is not None
    target.server.close()


def _assert_served_or_refused(result: ExecutionResult) -> None:
    if result.error is None:
        assert result.stdout.endswith("42\n"), result
    else:
        assert len(result.error) > 10
