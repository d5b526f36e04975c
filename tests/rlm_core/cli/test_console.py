"""No text commands the terminal, in whatever rich draws it."""

from __future__ import annotations

import io

import pytest
from rich.console import RenderableType
from rich.markdown import Markdown
from rich.markup import escape
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from rlm_core.cli.console import SafeConsole

EVIL = "a\x1b]52;c;ZXZpbA==\x07b\x1b[2Jc\x9b31md\x08e\u202ef"


def table() -> Table:
    made = Table(EVIL, title=EVIL)
    made.add_row(EVIL)
    return made


@pytest.mark.parametrize(
    "drawn",
    [
        EVIL,
        Text(EVIL),
        Panel(escape(EVIL), title=EVIL, subtitle=EVIL),
        table(),
        Tree(EVIL),
        Syntax(EVIL, "python"),
        Markdown(EVIL),
    ],
    ids=lambda drawn: type(drawn).__name__,
)
def test_control_characters_are_seen_and_not_obeyed(drawn: RenderableType) -> None:
    out = io.StringIO()
    console = SafeConsole(file=out, width=200, force_terminal=True)
    console.print(drawn)
    console.print("[red]colours of our own[/]")
    text = out.getvalue()
    for mark in ("\x1b]", "\x1b[2J", "\x07", "\x9b", "\x08", "\u202e"):
        assert mark not in text
    assert "\u241b" in text
    assert "\x1b[31mcolours of our own" in text
