"""The installed command `rlm-forge`: all of `rlm_core.cli`, and what needs MLflow or DVC. Both are imported on use only."""

from __future__ import annotations

from rlm_core.cli.main import app
from tasks.cli import compare, init, status

app.command("compare")(compare.compare)
app.command("init")(init.init)
app.command("status")(status.status)

__all__ = ["app"]
