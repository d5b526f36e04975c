"""What a completion says: code to run, or an answer in text form, and what of it cannot be understood."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rlm_core.protocol.fences import Fence, fences
from rlm_core.protocol.finals import Final, final_of, find_calls

RUNNABLE = frozenset({"", "python", "python3", "py", "repl"})
"""Info strings of blocks that run; the first word counts, in any case."""

_THINKING = re.compile(r"\A\s*<think>.*?(?:</think>|\Z)", re.DOTALL)
_THINKING_TAIL = re.compile(r"\A(?:(?!^ {0,3}(?:```|~~~)).)*?</think>", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ParsedTurn:
    """A completion, taken apart.

    >>> parse_turn("Look first.\\n```python\\nprint(1)\\n```\\n").code_blocks
    ['print(1)']
    """

    code_blocks: list[str]
    """Code in order, lines parted by line feeds. Run all of them, one after the other."""
    final: Final | None
    """The answer in text form; only in a turn without code to run."""
    prose: str
    """The text outside of fences, reasoning in <think> left out."""
    errors: list[str]
    """For the model: blocks that do not run, an answer that cannot be read."""
    unclosed: bool = False
    """The last block was closed by the end of the text: whole if the model stopped there, cut if it was out of tokens."""


def parse_turn(text: str) -> ParsedTurn:
    """Take a completion apart. Never raises.

    Every fenced block that is marked python, py, python3, repl or nothing runs, an unclosed last one included; a block
    with another mark is an error. `FINAL(...)` in the text counts when no block runs; the first one, if there are more.
    """
    spoken = text[reasoning_end(text) :]
    blocks = fences(spoken)
    runnable = [block for block in blocks if language(block) in RUNNABLE and block.body.strip()]
    errors = [
        f"a block marked {language(block)!r} was not run: mark code to run with ```python"
        for block in blocks
        if language(block) not in RUNNABLE
    ]
    errors += ["an empty code block" for block in blocks if language(block) in RUNNABLE and not block.body.strip()]
    prose = outside(spoken, blocks)
    final = None
    if not runnable:
        final, trouble = _text_answer(prose)
        errors += trouble
    unclosed = bool(blocks) and not blocks[-1].closed
    return ParsedTurn([block.body.removesuffix("\n") for block in runnable], final, prose, errors, unclosed)


def reasoning_end(text: str) -> int:
    """Offset after a leading <think> part, which is neither code nor answer; its opening tag may be in the prompt."""
    match = _THINKING.match(text)
    if match is None and "</think>" in text:
        match = _THINKING_TAIL.match(text)
    return match.end() if match else 0


def language(block: Fence) -> str:
    """The first word of the info string, lower case, without braces or a dot: `{.python}` is python."""
    words = block.info.replace("{", " ").replace("}", " ").split()
    return words[0].lstrip(".").lower() if words else ""


def outside(text: str, blocks: list[Fence]) -> str:
    """`text` without its fenced blocks."""
    parts, position = [], 0
    for block in blocks:
        parts.append(text[position : block.start])
        position = block.end
    return "".join([*parts, text[position:]])


def _text_answer(prose: str) -> tuple[Final | None, list[str]]:
    calls = find_calls(prose)
    whole = [call for call in calls if call.close >= 0]
    if not whole:
        return None, [f"{call.name}( has no closing parenthesis" for call in calls[:1]]
    first = whole[0]
    answer = final_of(first.name, first.inner(prose))
    errors = ["more than one answer; the first counts"] if len(whole) > 1 else []
    if not answer.text and answer.kind == "var":
        return None, [*errors, "FINAL_VAR() names no variable"]
    return answer, errors
