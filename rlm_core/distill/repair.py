"""Template mistakes in teacher turns, mended where it is certain what was meant, then checked again.

A mended turn stands in the data as the teacher should have written it; later turns keep the history that the teacher in
fact saw. A turn that still does not parse after mending is dropped, never guessed at.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from rlm_core.protocol import parse_turn, repair_turn
from rlm_core.records import ErrorClass, Rollout, Turn

FINAL_KINDS = frozenset(
    {"final_of_variable_name", "final_in_print", "final_in_markup", "unclosed_final", "prose_in_final_code"}
)
"""FINAL misused: what the background text counted in 16 % of turns."""
FINAL_VAR_KINDS = frozenset({"final_var_of_literal"})
"""FINAL_VAR misused: 13 % of turns there."""
MENDABLE = frozenset({ErrorClass.NONE, ErrorClass.FORMAT, ErrorClass.ANSWER, ErrorClass.CODE})
"""Recorded errors that a repair may undo: a FINAL that Python could not read is recorded as an error of the code."""


@dataclass(frozen=True, slots=True)
class Mended:
    text: str
    kinds: tuple[str, ...]
    """Kinds of repair made, see `protocol.REPAIR_KINDS`."""
    reason: str | None
    """Why the turn is not to be learned from; None keeps it."""


def mend_turn(node: Rollout, index: int) -> Mended:
    """Turn `index` of a node: repaired if need be, or the name of the filter that drops it.

    Reasons: `length_cut`, `repl_error` (the code raised, ran into a limit or over the budget), `format_error` (no code and no
    answer, or an answer that could not be read, beyond repair).
    """
    turn = node.turns[index]
    if turn.error is ErrorClass.LENGTH or turn.finish_reason == "length":
        return Mended(turn.text, (), "length_cut")
    if turn.error not in MENDABLE:
        return Mended(turn.text, (), "repl_error")
    repair = repair_turn(turn.text, known_variables(node.turns[:index]))
    if repair.kinds and (runs := reads_well(repair.text)):
        return Mended(repair.text, repair.kinds, None if runs else "format_error")
    if turn.error is ErrorClass.CODE:
        return Mended(turn.text, (), "repl_error")
    if turn.error is not ErrorClass.NONE or not reads_well(turn.text):
        return Mended(turn.text, (), "format_error")
    return Mended(turn.text, (), None)


def known_variables(turns: tuple[Turn, ...]) -> set[str]:
    """Names that the code of these turns assigned, whether or not a later line raised."""
    names: set[str] = set()
    for turn in turns:
        for block in parse_turn(turn.text).code_blocks:
            try:
                tree = ast.parse(block)
            except (SyntaxError, ValueError):
                continue
            names |= {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return names


def reads_well(text: str) -> bool:
    """Whether the harness can act on the turn: code that compiles, or an answer as text, and nothing unreadable."""
    parsed = parse_turn(text)
    if parsed.errors:
        return False
    for block in parsed.code_blocks:
        try:
            ast.parse(block)
        except (SyntaxError, ValueError):
            return False
    return bool(parsed.code_blocks) or parsed.final is not None
