"""Where the local Prefect and MLflow live. Import this before prefect: its settings are read at import."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from rlm_core.processes import die_with_parent

ROOT = Path(__file__).resolve().parent.parent
PREFECT_PORT = int(os.environ.get("PREFECT_PORT", "4200"))
MLFLOW_PORT = int(os.environ.get("MLFLOW_PORT", "5000"))
_UI_RUNNING = ROOT / ".prefect" / "ui-address"


def use_local_prefect() -> None:
    """Keep Prefect's state in the project; use the server of `make ui` while it runs.

    Settings that the user made (PREFECT_HOME, PREFECT_API_URL) win.
    """
    end_with_worker()
    os.environ.setdefault("PREFECT_HOME", str(ROOT / ".prefect"))
    os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
    os.environ.setdefault("PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW", "ignore")
    if "PREFECT_API_URL" not in os.environ and (address := running_ui()):
        os.environ["PREFECT_API_URL"] = address


def end_with_worker() -> None:
    """In a process that a worker or `serve` started for one flow run: die with it, also when it is killed with -9.

    Prefect leaves such a process running, with a stage that nobody watches.
    """
    if sys.orig_argv[1:3] == ["-m", "prefect.engine"]:
        die_with_parent()


def running_ui() -> str | None:
    """The API address of the Prefect server that this project's `make ui` started, if it answers."""
    import httpx

    if not _UI_RUNNING.exists():
        return None
    address = _UI_RUNNING.read_text().strip()
    try:
        httpx.get(f"{address}/health", timeout=2.0).raise_for_status()
    except httpx.HTTPError:
        return None
    return address


def announce_ui(address: str | None) -> None:
    """Record the running server's address; None removes it."""
    if address is None:
        _UI_RUNNING.unlink(missing_ok=True)
        return
    _UI_RUNNING.parent.mkdir(parents=True, exist_ok=True)
    _UI_RUNNING.write_text(address)
