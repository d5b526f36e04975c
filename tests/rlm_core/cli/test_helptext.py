"""`--help` of every command: prose that flows, examples that can be copied line by line."""

from __future__ import annotations

from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from rlm_core.cli.helptext import flowing
from tasks.cli.main import app

runner = CliRunner()
ROOT: Any = get_command(app)


def commands(group: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for name, command in group.commands.items():
        inner = getattr(command, "commands", None)
        found += commands(command, (*path, name)) if inner else [(*path, name)]
    return found


def test_prose_is_joined_and_examples_keep_their_lines() -> None:
    text = "First\nline.\n\nTold in\ntwo lines.\n\nExamples:\n\n  a --one\n\n  b \\\n    --two"
    assert flowing(text) == "First line.\n\n\nTold in two lines.\n\nExamples:\n  a --one\n  b \\\n  --two"
    assert flowing("Alone.") == "Alone."


@pytest.mark.parametrize("command", commands(ROOT), ids=" ".join)
def test_help_of_every_command(command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    result = runner.invoke(app, [*command, "-h"])
    assert result.exit_code == 0
    lines = [line.rstrip() for line in result.output.splitlines()]
    if any(line.strip() == "Examples:" for line in lines):
        start = next(n for n, line in enumerate(lines) if line.strip() == "Examples:")
        assert lines[start + 1].startswith("   "), "examples stand under their heading, indented"
        assert lines[start + 1].split()[0] == "rlm-forge"


def test_every_argument_and_option_says_what_it_is() -> None:
    unsaid = []
    for path in commands(ROOT):
        command = ROOT
        for name in path:
            command = command.commands[name]
        unsaid += [f"{' '.join(path)} {p.name}" for p in command.params if not getattr(p, "help", None)]
    assert unsaid == []
