"""The installed command `rlm-forge`: all of `rlm_core.cli`, and what needs MLflow or DVC. Both are imported on use only."""

from __future__ import annotations

from rlm_core.cli.helptext import tidy_help
from rlm_core.cli.main import LOOK, SET_UP, app
from tasks.cli import compare, init, status

app.command("init", rich_help_panel=SET_UP)(init.init)
app.command("status", rich_help_panel=LOOK)(status.status)
app.command("compare", rich_help_panel=LOOK)(compare.compare)
tidy_help(app)

__all__ = ["app"]
