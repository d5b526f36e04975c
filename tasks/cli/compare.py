"""`rlm-forge compare`: MLflow runs side by side, as the comparison page of `mlflow ui` shows them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from rlm_core.cli.console import SafeConsole
from rlm_core.params import Params, ParamsError, load_params
from tasks.common import StageError

if TYPE_CHECKING:
    from mlflow.entities import Run

console = SafeConsole()


@dataclass(frozen=True, slots=True)
class Side:
    """One run of a comparison."""

    run_id: str
    name: str
    status: str
    started: str
    seconds: float | None
    """None while it runs."""
    params: Mapping[str, str]
    metrics: Mapping[str, float]
    """The last value of each."""
    tags: Mapping[str, str]


def compare(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            help="Ids, unique beginnings of ids, or names (NAME~1: the run before the newest of that name)."
        ),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also params that are equal, and metrics of the machine (system/*).")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    params_file: Annotated[Path, typer.Option("--params", help="Says where MLflow is.")] = Path("params.yaml"),
) -> None:
    """Params that differ and metrics of two or more MLflow runs. Without a run: the newest ones, to choose from.

    Examples:

      rlm-forge compare

      rlm-forge compare grpo grpo~1

      rlm-forge compare 3f2a 91bc 07de --all
    """
    from tasks.cli.runs import Runs

    try:
        store = Runs(load_params(params_file) if params_file.exists() else Params())
        if not runs:
            console.print(_choice([side_of(run) for run in store.newest()]))
            return
        if len(runs) == 1:
            raise StageError(
                f"one run, '{runs[0]}', compares with nothing; name another (`rlm-forge compare` lists them)"
            )
        sides = [side_of(store.find(name)) for name in runs]
    except (ParamsError, StageError) as error:
        console.print(f"[bold red]{escape(str(error))}[/]")
        raise typer.Exit(2) from None
    params, metrics = param_rows(sides, everything=everything), metric_rows(sides, everything=everything)
    if as_json:
        heads = [{"run_id": s.run_id, "name": s.name, "status": s.status, "seconds": s.seconds} for s in sides]
        typer.echo(json.dumps({"runs": heads, "params": params, "metrics": metrics}, ensure_ascii=False, indent=2))
        return
    _show(sides, params, metrics)


def side_of(run: Run) -> Side:
    info = run.info
    return Side(
        run_id=info.run_id,
        name=info.run_name or "",
        status=info.status,
        started=datetime.fromtimestamp(info.start_time / 1000).strftime("%Y-%m-%d %H:%M"),
        seconds=(info.end_time - info.start_time) / 1000 if info.end_time else None,
        params=dict(run.data.params),
        metrics=dict(run.data.metrics),
        tags={k: v for k, v in run.data.tags.items() if not k.startswith("mlflow.")},
    )


def param_rows(sides: Sequence[Side], *, everything: bool = False) -> dict[str, list[str | None]]:
    """Key -> its value in each run, None where it has none; only keys whose values differ, unless `everything`."""
    rows = {key: [side.params.get(key) for side in sides] for key in sorted({k for s in sides for k in s.params})}
    return {key: values for key, values in rows.items() if everything or len(set(values)) > 1}


def metric_rows(sides: Sequence[Side], *, everything: bool = False) -> dict[str, list[float | None]]:
    """Metric -> its last value in each run, None where it has none; without the machine's, unless `everything`."""
    keys = sorted({key for side in sides for key in side.metrics if everything or not key.startswith("system/")})
    return {key: [side.metrics.get(key) for side in sides] for key in keys}


def seconds_text(seconds: float | None) -> str:
    """As a person says it: 12 s, 3 min 05 s, 2 h 10 min."""
    if seconds is None:
        return "-"
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def _choice(sides: Sequence[Side]) -> Table:
    table = Table("id", "run", "status", "started", "took", title="The newest runs", title_justify="left")
    for side in sides:
        name = f"  {side.name}" if "stage" in side.tags else side.name
        table.add_row(side.run_id[:8], escape(name), side.status, side.started, seconds_text(side.seconds))
    return table


def _show(sides: Sequence[Side], params: Mapping[str, Any], metrics: Mapping[str, list[float | None]]) -> None:
    table = Table("", *(f"{escape(side.name)}\n{side.run_id[:8]}" for side in sides))
    if len(sides) == 2:
        table.add_column("difference", justify="right")
    for label, values in (
        ("status", [side.status for side in sides]),
        ("started", [side.started for side in sides]),
        ("took", [seconds_text(side.seconds) for side in sides]),
        *((tag, [side.tags.get(tag, "-")[:12] for side in sides]) for tag in ("git_commit", "dvc_exp_name")),
    ):
        if any(value != "-" for value in values):
            table.add_row(label, *map(escape, values))
    total = len({key for side in sides for key in side.params})
    _section(table, f"params that differ: {sum(len(set(v)) > 1 for v in params.values())} of {total}")
    for key, texts in params.items():
        table.add_row(escape(key), *("-" if text is None else escape(text) for text in texts))
    _section(table, f"metrics: {len(metrics)}")
    for key, numbers in metrics.items():
        row = [_number(number) for number in numbers]
        if len(sides) == 2:
            first, second = numbers
            row.append("" if first is None or second is None else f"{second - first:+.4g}")
        table.add_row(escape(key), *row)
    console.print(table)


def _section(table: Table, title: str) -> None:
    table.add_section()
    table.add_row(f"[bold]{title}[/]")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"
