"""What a person sees of a tree, finished or running."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from rich.console import Console

from rlm_core.policies.base import PolicyError
from rlm_core.records import Query
from rlm_core.rollouts import RolloutConfig, run_rollout
from rlm_core.rollouts.show import print_events, render_tree

MakeScript = Callable[..., Any]


def turn(code: str) -> str:
    """A completion that is one code block."""
    return f"```python\n{code}\n```"


async def test_a_tree_is_drawn_with_code_output_children_and_answer(make_script: MakeScript, query: Query) -> None:
    ask = 'print("[red]not markup[/red]")\nx = rlm_query_batched(["part", "broken"])\nprint(llm_query("plain?"))'
    policy = make_script(
        {
            "where?": [turn(ask), turn('FINAL(["found it"])')],
            "part": [turn("1 / 0"), turn("FINAL(2)")],
            "broken": [PolicyError("connection refused")],
            "plain?": ["plain reply"],
        }
    )
    live = io.StringIO()
    observer = print_events(Console(file=live, width=120))
    rollout = await run_rollout(query, policy, RolloutConfig(), observer=observer)
    out = io.StringIO()
    Console(file=out, width=120).print(render_tree(rollout))
    text = out.getvalue()
    for part in ("q.0", "where?", "[red]not markup[/red]", "q.0.0", "ZeroDivisionError", "code error", "plain reply"):
        assert part in text
    assert "no answer: failed, PolicyError: connection refused" in text
    assert "1. found it" in text
    assert "2 children" in text
    for part in ("root  where?", "child 1", "ZeroDivisionError", "1. found it"):
        assert part in live.getvalue()


async def test_nobody_but_the_program_commands_the_terminal(make_script: MakeScript) -> None:
    """Question, code, output, answer and replies may all hold escape sequences: none arrives as one."""
    evil = "\x1b]52;c;ZXZpbA==\x07\x1b[2J\x9b31m\u202e\r"
    code = turn(f"print({evil!r}, llm_query('plain'))\n# {evil.replace(chr(13), '')}")
    script = {"*": [code, evil, turn(f"FINAL([{evil!r}])")], "plain": [evil]}
    live, out = io.StringIO(), io.StringIO()
    observer = print_events(Console(file=live, width=120, force_terminal=True, color_system=None))
    rollout = await run_rollout(
        Query(id=f"q{evil}", question=f"where {evil}"), make_script(script), RolloutConfig(), observer=observer
    )
    assert rollout.answer == [evil]
    Console(file=out, width=120, force_terminal=True, color_system=None).print(render_tree(rollout))
    for shown in (live.getvalue(), out.getvalue()):
        assert "\u241b]52;c;ZXZpbA==\u2407" in shown.replace("\n", "")
        for mark in ("\x1b]", "\x1b[2J", "\x07", "\x9b", "\u202e", "\r"):
            assert mark not in shown
