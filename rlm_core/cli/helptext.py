"""Docstrings as `--help` shows them: prose flows to the width of the terminal, indented examples keep their lines."""

from __future__ import annotations

import inspect

import typer


def tidy_help(app: typer.Typer) -> None:
    """Sets the help of every command of `app` and of the groups in it from its function's docstring."""
    for command in app.registered_commands:
        if command.callback is not None:
            command.help = flowing(inspect.getdoc(command.callback) or "")
    for group in app.registered_groups:
        if group.typer_instance is not None:
            tidy_help(group.typer_instance)


def flowing(text: str) -> str:
    """Joins the lines of a paragraph; puts examples (indented lines) one below the other, two spaces in."""
    first, *rest = text.split("\n\n")
    joined = " ".join(first.split())
    shown = ""
    for paragraph in rest:
        if paragraph.startswith(" "):
            lines = [f"  {line.strip()}" for line in paragraph.splitlines()]
            shown += "\n" + "\n".join(lines)
        else:
            shown += "\n\n" + " ".join(paragraph.split())
    # Typer strips the indentation of all lines after the first: an empty first line keeps the others as they are.
    return joined + (f"\n\n\n{shown.lstrip()}" if shown else "")
