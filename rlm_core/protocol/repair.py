"""Mend common slips in how an answer is given, where it is certain what was meant. Pure functions on text.

The background work found such slips in 16 % (FINAL) and 13 % (FINAL_VAR) of a teacher's turns and patched them before
distilling. Each repair here has a name, so that what was changed can be counted.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from rlm_core.protocol.fences import Fence, fences
from rlm_core.protocol.parse import RUNNABLE, language, reasoning_end
from rlm_core.protocol.repair_code import assigned_names, repair_code
from rlm_core.protocol.repair_text import repair_text

REPAIR_KINDS: dict[str, str] = {
    "final_of_variable_name": "FINAL(name) or FINAL('name') of a variable that exists: FINAL_VAR(name) was meant",
    "final_var_of_literal": "FINAL_VAR('a whole answer'): FINAL was meant",
    "final_in_print": "print(FINAL(...)): the print is dropped",
    "final_in_markup": "`FINAL(...)` or **FINAL(...)** at a line start: the markup is dropped",
    "unclosed_final": "FINAL(... without its closing parenthesis at the end: added",
    "prose_in_final_code": "a code block that is FINAL(plain words): the words are quoted",
}
"""Every kind of repair, and what it does."""


@dataclass(frozen=True, slots=True)
class Repair:
    """A mended completion."""

    text: str
    kinds: tuple[str, ...] = ()
    """One name of `REPAIR_KINDS` for each repair made, in order; empty when nothing was wrong or nothing was certain."""


def repair_turn(text: str, known_variables: Collection[str] = ()) -> Repair:
    """Mend `text`, knowing which variables the REPL holds before this turn. Mending twice changes nothing more."""
    start = reasoning_end(text)
    spoken, kinds = text[start:], []
    blocks = fences(spoken)
    runnable = [block for block in blocks if language(block) in RUNNABLE and block.body.strip()]
    known = frozenset(known_variables)
    if runnable:
        assigned: set[str] = set()
        parts, position = [], 0
        for block in runnable:
            mended, found = repair_code(block.body, known | assigned)
            kinds += found
            assigned |= assigned_names(mended)
            if found:
                parts += [spoken[position : block.start], _rewrap(spoken[block.start : block.end], block, mended)]
                position = block.end
        spoken = "".join([*parts, spoken[position:]])
    else:
        spoken, kinds = repair_text(spoken, known)
    return Repair(text[:start] + spoken, tuple(kinds))


def _rewrap(original: str, block: Fence, body: str) -> str:
    """The block's own fence lines around a new body; line ends become LF."""
    lines = original.replace("\r\n", "\n").replace("\r", "\n").splitlines()
    closing = "\n" + lines[-1] if block.closed else ""
    ending = "\n" if original.endswith(("\n", "\r")) else ""
    return f"{lines[0]}\n{body.rstrip(chr(10))}{closing}{ending}"
