"""`rlm-forge params`: check a params file before anything runs; say what each value means."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from pydantic import BaseModel
from rich.table import Table

from rlm_core.cli.console import SafeConsole
from rlm_core.files import write_text
from rlm_core.params import Params, ParamsError, load_params

app = typer.Typer(help="Check and explain params files.", no_args_is_help=True)
console = SafeConsole()


@app.command()
def check(files: Annotated[list[Path] | None, typer.Argument(help="params.yaml if none is named.")] = None) -> None:
    """Validate params files; every fault is listed with its key and what is allowed."""
    faults = 0
    for file in files or [Path("params.yaml")]:
        try:
            load_params(file)
        except ParamsError as error:
            typer.echo(str(error), err=True)
            faults += 1
        else:
            typer.echo(f"{file}: valid")
    if faults:
        raise typer.Exit(2)


@app.command()
def fill(files: Annotated[list[Path] | None, typer.Argument(help="params.yaml if none is named.")] = None) -> None:
    """Write out every value a params file leaves to its default, so that DVC sees all of them; the heading stays."""
    for file in files or [Path("params.yaml")]:
        try:
            params = load_params(file)
        except ParamsError as error:
            typer.echo(str(error), err=True)
            raise typer.Exit(2) from error
        heading = "".join(itertools.takewhile(lambda line: line.startswith("#"), file.open(encoding="utf-8")))
        values = yaml.safe_dump(params.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
        write_text(file, heading + values)
        typer.echo(f"{file}: complete")


@app.command()
def describe(
    section: Annotated[str | None, typer.Argument(help="A section, e.g. grpo; all if none is named.")] = None,
) -> None:
    """What each value means, its type, range and default."""
    sections = {name: field for name, field in Params.model_fields.items() if isinstance(field.default, BaseModel)}
    if section is not None and section not in sections:
        typer.echo(f"no section '{section}'; there are: {', '.join(sections)}", err=True)
        raise typer.Exit(2)
    for name in [section] if section else sections:
        table = Table(title=name, title_justify="left", show_lines=False, expand=True)
        for column in ("key", "type", "default", "meaning"):
            table.add_column(column, overflow="fold")
        model = type(sections[name].default)
        schema = model.model_json_schema()["properties"]
        for key, field in model.model_fields.items():
            table.add_row(key, _type(schema[key]), str(field.default), field.description or "")
        console.print(table)


def _type(schema: dict[str, Any]) -> str:
    """A JSON schema as a short phrase: its type or choices, then its bounds."""
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if "anyOf" in schema:
        return " or ".join(_type(s) for s in schema["anyOf"])
    name = schema.get("type") or schema.get("$ref", "").rsplit("/", 1)[-1]
    bounds = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
    return " ".join([str(name), *(f"{sign} {schema[key]}" for key, sign in bounds.items() if key in schema)])
