"""`rlm-forge status`: the stages, which are stale and why, when each last ran, how long it took, what it made."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from rlm_core.cli.console import SafeConsole
from rlm_core.params import ParamsError, load_params
from tasks.cli.compare import seconds_text, side_of
from tasks.cli.runs import Runs
from tasks.cli.stages import StageState, read_stages
from tasks.common import StageError

console = SafeConsole()
SHOWN = 3
"""Reasons named of a stale stage."""


@dataclass(frozen=True, slots=True)
class LastRun:
    """The newest MLflow run of a stage."""

    run_id: str
    status: str
    started: str
    seconds: float | None
    peak_memory_mb: float | None


def status(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """The stages of this folder: which are stale (as `dvc status` knows), and the last run of each (from MLflow).

    `stale` will run with the next `dvc repro`; `waits` may, after a stale one before it. Time and memory are those of the
    newest run; DVC's cache may have brought outputs back without one.

    Examples:

      rlm-forge status

      rlm-forge status --json | jq '.stages[] | select(.reasons != [])'
    """
    try:
        params = load_params()
        stages = read_stages()
    except (ParamsError, StageError) as error:
        console.print(f"[bold red]{escape(str(error))}[/]")
        raise typer.Exit(2) from None
    note = ""
    runs: dict[str, LastRun] = {}
    try:
        store = Runs(params)
        runs = {stage.name: run for stage in stages if (run := last_run(store, stage.name))}
    except StageError as error:
        note = str(error)
    if as_json:
        rows = [{**asdict(s), "last_run": asdict(runs[s.name]) if s.name in runs else None} for s in stages]
        typer.echo(json.dumps({"stages": rows, "note": note}, indent=2))
        return
    console.print(draw(stages, runs))
    if note:
        console.print(f"[yellow]{escape(note)}[/]")
    stale = sum(1 for s in stages if s.reasons)
    if stale:
        console.print(f"{stale} of {len(stages)} stages are stale; run them: dvc repro (or `make run`)")
    else:
        console.print("Everything is up to date.")


def last_run(store: Runs, stage: str) -> LastRun | None:
    found = store.newest(f"tags.stage = '{stage}'", count=1)
    if not found:
        return None
    side = side_of(found[0])
    seconds = side.metrics.get("stage_seconds", side.seconds)
    return LastRun(side.run_id, side.status, side.started, seconds, side.metrics.get("peak_memory_mb"))


def draw(stages: list[StageState], runs: Mapping[str, LastRun]) -> Table:
    table = Table("stage", "state", "last run", "took", "peak memory", "outs")
    for stage in stages:
        run = runs.get(stage.name)
        memory = "-" if run is None or run.peak_memory_mb is None else f"{run.peak_memory_mb / 1024:.1f} GiB"
        when = "-" if run is None else run.started + ("" if run.status == "FINISHED" else f"\n{run.status.lower()}")
        table.add_row(
            stage.name,
            _state(stage),
            when,
            seconds_text(run.seconds if run else None),
            memory,
            "\n".join(_out(path) for path in stage.outs),
        )
    return table


def _state(stage: StageState) -> str:
    if stage.reasons and not stage.made:
        return "[yellow]never run[/]"
    if stage.reasons:
        more = f"\nand {len(stage.reasons) - SHOWN} more" if len(stage.reasons) > SHOWN else ""
        return "[yellow]stale[/]: " + escape("\n".join(stage.reasons[:SHOWN])) + more
    if stage.after:
        return f"[cyan]waits[/]: {', '.join(stage.after)}"
    return "[green]up to date[/]"


def _out(path: str) -> str:
    return escape(path) if Path(path).exists() else f"[dim]{escape(path)} (not here)[/]"
