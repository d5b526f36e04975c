"""`rlm-forge doctor`: what this machine and this folder have, what is missing, and how to mend it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from rlm_core.cli.checks import machine, project
from rlm_core.cli.checks.finding import Finding
from rlm_core.cli.console import SafeConsole

console = SafeConsole()
_SIGNS = {"ok": "[green]ok[/]", "note": "[yellow]note[/]", "bad": "[red]!![/]"}


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Check everything a run needs, each with what to do; exit code 1 if something must be mended.

    The machine: Python, processor, memory, disk, tools, GPU, the sandbox (a real worker tries what should be refused).
    This folder: params.yaml, installed versions against the lock, records that MLflow has not got. The network: endpoints
    of the params (reachable, key present), the ports of `make ui`.

    Examples:

      rlm-forge doctor

      rlm-forge doctor --json | jq '.[] | select(.level != "ok")'
    """
    findings = examine()
    if as_json:
        typer.echo(json.dumps([asdict(f) for f in findings], ensure_ascii=False, indent=2))
    else:
        table = Table("", "what", "found", "to do")
        for f in findings:
            table.add_row(_SIGNS[f.level], escape(f.what), escape(f.found), escape(f.remedy))
        console.print(table)
    if any(f.level == "bad" for f in findings):
        raise typer.Exit(1)


def examine() -> list[Finding]:
    """All checks of the current folder; those of the network wait for a few seconds at most."""
    from rlm_core.cli.checks import services

    about_params, params = project.params()
    return [
        machine.python(),
        machine.processor(),
        machine.memory(),
        machine.disk(Path()),
        *machine.tools(),
        machine.gpu(project.installed("torch")),
        project.lock(),
        about_params,
        *(services.endpoints(params) if params else []),
        *services.ports(),
        project.outboxes(),
        *machine.sandbox(),
    ]
