"""Servers of this machine that live as long as the process that starts them, also when it is killed with -9."""

from __future__ import annotations

import atexit
import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from flows.environment import ROOT
from rlm_core.processes import spawn_bound, stop_group

LOGS = ROOT / ".cache" / "servers"
PATIENCE_SECONDS = 900.0
"""For a server to answer after its start: seconds on an idle machine, minutes on one that trains meanwhile."""


class ServerFailed(RuntimeError):
    """A server ended or kept silent; the message holds the end of its log."""


def port_taken(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def mlflow_server(store: str, port: int) -> Iterator[str]:
    """The MLflow UI over a SQLite store; yields its address. Its job runners are off: they judge traces on a schedule."""
    command = ["mlflow", "server", "--backend-store-uri", store, "--port", str(port), "--workers", "2"]
    address = f"http://127.0.0.1:{port}"
    with _running("mlflow", command, f"{address}/health", MLFLOW_SERVER_ENABLE_JOB_EXECUTION="false"):
        yield address


@contextlib.contextmanager
def prefect_server(port: int) -> Iterator[str]:
    """A Prefect server; yields its API address, which is also set as PREFECT_API_URL while it runs."""
    api = f"http://127.0.0.1:{port}/api"
    command = ["prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    before = os.environ.get("PREFECT_API_URL")
    # else the browser's pages ask port 4200, wherever the server listens
    with _running("prefect", command, f"{api}/health", PREFECT_UI_API_URL=api):
        os.environ["PREFECT_API_URL"] = api
        try:
            yield api
        finally:
            os.environ.pop("PREFECT_API_URL", None)
            if before is not None:
                os.environ["PREFECT_API_URL"] = before


def own_prefect_server() -> None:
    """A Prefect server for this process, where no other is set (PREFECT_API_URL), until the process ends.

    Stopped by atexit, which comes after Prefect has sent its last logs and events: it would wait for a dead server.
    """
    if "PREFECT_API_URL" not in os.environ:
        running = contextlib.ExitStack()
        running.enter_context(prefect_server(free_port()))
        atexit.register(running.close)


@contextlib.contextmanager
def _running(name: str, command: list[str], health: str, **variables: str) -> Iterator[None]:
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / f"{name}.log"
    with open(log, "wb") as out:
        environment = {**variables, **os.environ}
        full = [sys.executable, "-m", *command]
        server = spawn_bound(full, env=environment, stdout=out, stderr=subprocess.STDOUT, cwd=str(ROOT))
    try:
        _wait_for(health, server, log)
        yield
    finally:
        stop_group(server)


def _wait_for(url: str, server: subprocess.Popen[bytes], log: Path, seconds: float = PATIENCE_SECONDS) -> None:
    """Until `url` answers; raises `ServerFailed` if the server ends or stays silent."""
    import httpx

    start = told = time.monotonic()
    while (now := time.monotonic()) - start < seconds and server.poll() is None:
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(url, timeout=2.0).is_success:
                return
        if now - told >= 30:
            told = now
            print(f"waiting for {url} to answer: {now - start:.0f} s; its log is {log}", file=sys.stderr, flush=True)
        time.sleep(0.3)
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
    what = f"ended with code {server.returncode}" if server.poll() is not None else f"kept silent for {seconds:.0f} s"
    raise ServerFailed(f"the server of {url} {what}; the end of {log}:\n{tail}")
