"""Rollout trees for people, in a terminal: a finished tree, or one that is running."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.syntax import Syntax
from rich.text import Text
from rich.tree import Tree as RichTree

from rlm_core.printable import printable
from rlm_core.protocol import parse_turn
from rlm_core.records import ErrorClass, Rollout, Status, Turn, Usage
from rlm_core.rollouts.events import Event, Observer

_STATUS_STYLE = {Status.ANSWERED: "green", Status.FAILED: "bold red", Status.CANCELLED: "red"}


def render_tree(rollout: Rollout, *, code_chars: int = 2000, output_chars: int = 800) -> RenderableType:
    """A tree of nodes: each turn's code and output, its children below it, the answer, tokens and time."""
    return _render_node(rollout, RichTree(_node_title(rollout)), code_chars, output_chars)


def _render_node(node: Rollout, branch: RichTree, code_chars: int, output_chars: int) -> RichTree:
    for index, turn in enumerate(node.turns):
        body: list[RenderableType] = [_turn_title(index, turn), _code(turn.text, code_chars)]
        if turn.observation:
            body.append(_output(turn.observation, output_chars))
        at_turn = branch.add(Group(*body))
        for call in node.provenance.get("calls", ()):
            if call.get("turn") == index:
                at_turn.add(_call_line(call))
        for child in node.children:
            if child.parent_turn == index:
                _render_node(child, at_turn.add(_node_title(child)), code_chars, output_chars)
    orphans = [c for c in node.children if c.parent_turn is None or c.parent_turn >= len(node.turns)]
    for child in orphans:
        _render_node(child, branch.add(_node_title(child)), code_chars, output_chars)
    branch.add(_ending(node.answer, node.status, node.failure))
    return branch


def print_events(console: Console, *, output_chars: int = 600) -> Observer:
    """An observer that prints a tree while it runs; lines of children are indented and named by their node."""
    names: dict[str, int] = {}

    def show(event: Event) -> None:
        number = names.setdefault(event.node_id, len(names))
        label = Text(
            "root" if event.depth == 0 else f"child {number}", style="bold" if event.depth == 0 else "bold cyan"
        )
        parts: list[RenderableType] = []
        if event.kind == "node_start":
            parts = [Text.assemble(label, "  ", (_short(event.text, 2000), "italic"))]
        elif event.kind == "action":
            parts = [Text.assemble(label, (f"  turn {event.turn + 1}", "dim")), _code(event.text, 2000)]
        elif event.kind == "observation" and event.text:
            parts = [_output(event.text, output_chars)]
        elif event.kind == "call":
            parts = [Text(f"model call: {_short(event.text, 200)}", style="dim")]
        elif event.kind == "node_end":
            usage = event.data["usage"]
            ending = _ending(event.data["answer"], event.data["status"], event.data["failure"])
            parts = [Text.assemble(label, "  ", ending, "  ", (_usage(usage), "dim"))]
        for part in parts:
            console.print(Padding(part, (0, 0, 0, 4 * event.depth)))

    return show


def _node_title(node: Rollout) -> Text:
    return Text.assemble(
        (printable(node.id), "bold"),
        "  ",
        (_short(node.question, 200), "italic"),
        "  ",
        (str(node.status), _STATUS_STYLE.get(node.status, "yellow")),
        "  ",
        (_usage(node.usage), "dim"),
    )


def _turn_title(index: int, turn: Turn) -> Text:
    tokens = f"{len(turn.prompt_ids)}+{len(turn.completion_ids)} tokens  " if turn.completion_ids else ""
    measured = turn.model_seconds or turn.repl_seconds
    times = f"model {turn.model_seconds:.2f} s, code {turn.repl_seconds:.2f} s" if measured else ""
    error = "" if turn.error is ErrorClass.NONE else f"  {turn.error} error"
    return Text.assemble((f"turn {index + 1}", "bold"), (f"  {tokens}{times}", "dim"), (error, "red"))


def _code(text: str, limit: int) -> RenderableType:
    """The code of a turn as code; a turn without any as it stands."""
    blocks = parse_turn(text).code_blocks
    if not blocks:
        return Text(_short(text, limit, flat=False))
    return Syntax(_short("\n\n".join(blocks), limit, flat=False), "python", theme="ansi_dark", word_wrap=True)


def _output(text: str, limit: int) -> RenderableType:
    return Padding(Text(_short(text, limit, flat=False), style="dim"), (0, 0, 0, 2))


def _call_line(call: dict[str, Any]) -> Text:
    reply = call.get("text") or f"failed: {call.get('failure') or call.get('error', '')}"
    return Text.assemble(("model call  ", "cyan"), (_short(call["prompt"], 80), "italic"), " -> ", _short(reply, 120))


def _ending(answer: Any, status: Status, failure: str) -> Text:
    if answer is None:
        return Text(f"no answer: {status}" + (f", {printable(failure)}" if failure else ""), style="red")
    if isinstance(answer, list) and all(isinstance(item, str) for item in answer):
        lines = [f"\n  {number}. {_short(item, 300)}" for number, item in enumerate(answer, 1)]
        shown = f"{len(answer)} passage{'s' if len(answer) != 1 else ''}" + "".join(lines)
    else:
        shown = _short(answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False), 600)
    late = "" if status is Status.ANSWERED else f" ({status})"
    return Text.assemble((f"answer{late}: ", "bold green"), shown)


def _usage(usage: Usage) -> str:
    parts = (
        f"{usage.turns} turn{'s' if usage.turns != 1 else ''}",
        f"{usage.children} child{'ren' if usage.children != 1 else ''}" if usage.children else "",
        f"{usage.prompt_tokens}+{usage.completion_tokens} tokens" if usage.prompt_tokens else "",
        f"{usage.wall_seconds:.1f} s" if usage.wall_seconds else "",
    )
    return ", ".join(filter(None, parts))


def _short(text: str, limit: int, *, flat: bool = True) -> str:
    text = printable(" ".join(text.split()) if flat else text)
    return text if len(text) <= limit else f"{text[:limit]} ... ({len(text) - limit} more characters)"
