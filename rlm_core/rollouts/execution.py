"""Runs a turn's code, or takes its answer as text, and says what the model is shown next."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rlm_core.prompts import feedback as say
from rlm_core.protocol import Final
from rlm_core.records import ErrorClass
from rlm_core.repl import ExecutionResult
from rlm_core.rollouts.worker import Worker


@dataclass(frozen=True, slots=True)
class Outcome:
    """What followed from a turn."""

    observation: str = ""
    error: ErrorClass = ErrorClass.NONE
    answer: Any = None
    has_answer: bool = False
    seconds: float = 0.0


async def run_blocks(worker: Worker, blocks: Sequence[str], *, output_chars: int) -> Outcome:
    """Run code blocks in order until one answers or fails; what they printed, cut to `output_chars`, is the observation."""
    shown: list[str] = []
    seconds = 0.0
    for number, block in enumerate(blocks, 1):
        result = await worker.execute(block)
        seconds += result.seconds
        if result.has_final:
            return Outcome(error=result.error_class, answer=result.final, has_answer=True, seconds=seconds)
        shown.append(as_shown(result))
        if result.error is not None:
            if number < len(blocks):
                shown.append(say.NOT_RUN)
            return Outcome(_joined(shown, output_chars), result.error_class, seconds=seconds)
    return Outcome(_joined(shown, output_chars), seconds=seconds)


async def take_text_answer(worker: Worker, final: Final) -> Outcome:
    """The answer of `FINAL(...)` or `FINAL_VAR(...)` written as text.

    `FINAL_VAR` needs the variable. `FINAL(text)`: a quoted string, a list or a dict is that value; a name or an expression over
    variables that there are is its value, as if it had been called in code; anything else is the text itself.
    """
    if final.kind == "var":
        return _outcome(await worker.execute(f"FINAL_VAR({final.text!r})"))
    if final.quoted:
        return Outcome(answer=final.value, has_answer=True)
    text = final.text
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        return Outcome(answer=text, has_answer=True)
    if isinstance(tree, (ast.List, ast.Tuple, ast.Dict, ast.JoinedStr)) or _is_string(tree) or _names(tree):
        result = await worker.execute(f"FINAL({text})")
        if result.has_final:
            return _outcome(result)
        if isinstance(tree, (ast.List, ast.Dict)):
            return _outcome(result)
    return Outcome(answer=text, has_answer=True)


def as_shown(result: ExecutionResult) -> str:
    """One block's output and error, as the model sees them."""
    parts = [result.stdout.rstrip("\n"), (result.error or "").rstrip("\n")]
    return "\n".join(part for part in parts if part)


def cut_middle(text: str, limit: int) -> str:
    """At most about `limit` characters: head and tail, and how many characters are missing between them."""
    if len(text) <= limit:
        return text
    head, tail = (limit + 1) // 2, limit // 2
    cut = f"... ({len(text) - limit} characters cut) ..."
    return "\n".join(part for part in (text[:head], cut, text[len(text) - tail :]) if part)


def _joined(shown: Sequence[str], output_chars: int) -> str:
    """A single block is cut by the REPL already; the outputs of several are cut together."""
    text = "\n".join(part for part in shown if part)
    if len(shown) > 1:
        text = cut_middle(text, output_chars)
    return text or say.NO_OUTPUT


def _outcome(result: ExecutionResult) -> Outcome:
    if result.has_final:
        return Outcome(answer=result.final, has_answer=True, seconds=result.seconds)
    return Outcome(as_shown(result) or say.NO_OUTPUT, ErrorClass.ANSWER, seconds=result.seconds)


def _is_string(tree: ast.expr) -> bool:
    return isinstance(tree, ast.Constant) and isinstance(tree.value, str)


def _names(tree: ast.expr) -> bool:
    """Whether an expression reads variables, so that the REPL may know its value."""
    return any(isinstance(node, ast.Name) for node in ast.walk(tree))
