"""A local server that never answers is told of with the end of its log."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from flows.servers import ServerFailed, _wait_for, free_port


@pytest.mark.parametrize(
    ("program", "seconds", "told"),
    [
        ("print('no space left'); raise SystemExit(3)", 60.0, "ended with code 3"),
        ("print('no space left', flush=True); import time; time.sleep(60)", 2.0, "kept silent for 2 s"),
    ],
)
def test_a_server_that_does_not_come_up_is_told(tmp_path: Path, program: str, seconds: float, told: str) -> None:
    log = tmp_path / "server.log"
    with open(log, "wb") as out:
        server = subprocess.Popen([sys.executable, "-c", program], stdout=out)
    while "no space left" not in log.read_text() and server.poll() is None:
        time.sleep(0.05)
    try:
        with pytest.raises(ServerFailed, match=told) as failure:
            _wait_for(f"http://127.0.0.1:{free_port()}/health", server, log, seconds)
    finally:
        server.kill()
        server.wait()
    assert str(failure.value).endswith(f"the end of {log}:\nno space left")
