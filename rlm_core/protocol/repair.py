"""Mend common slips in how an answer is given, where it is certain what was meant. Pure functions on text.

The background work found such slips in 16 % (FINAL) and 13 % (FINAL_VAR) of a teacher's turns and patched them before
distilling. Each repair here has a name, so that what was changed can be counted.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass

from rlm_core.protocol.fences import Fence, fences
from rlm_core.protocol.finals import closing_parenthesis, find_calls, string_literal
from rlm_core.protocol.parse import RUNNABLE, language, reasoning_end

REPAIR_KINDS: dict[str, str] = {
    "final_of_variable_name": "FINAL(name) or FINAL('name') of a variable that exists: FINAL_VAR(name) was meant",
    "final_var_of_literal": "FINAL_VAR('a whole answer'): FINAL was meant",
    "final_in_print": "print(FINAL(...)): the print is dropped",
    "final_in_markup": "`FINAL(...)` or **FINAL(...)** at a line start: the markup is dropped",
    "unclosed_final": "FINAL(... without its closing parenthesis at the end: added",
    "prose_in_final_code": "a code block that is FINAL(plain words): the words are quoted",
}
"""Every kind of repair, and what it does."""

_MARKUP = re.compile(r"^( {0,3})(`|\*\*|__)(?=(?:FINAL|FINAL_VAR)[ \t]*\()", re.MULTILINE)
_PRINT = re.compile(r"^( {0,3})print[ \t]*\([ \t]*(?=(?:FINAL|FINAL_VAR)[ \t]*\()", re.MULTILINE)
_WHOLE_CALL = re.compile(r"\A\s*(FINAL|FINAL_VAR)[ \t]*\((.*)\)?\s*\Z", re.DOTALL)


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
            mended, found = _repair_code(block.body, known | assigned)
            kinds += found
            assigned |= _assigned_names(mended)
            if found:
                parts += [spoken[position : block.start], _rewrap(spoken[block.start : block.end], block, mended)]
                position = block.end
        spoken = "".join([*parts, spoken[position:]])
    else:
        for step in (_drop_markup, _drop_print, _close_parenthesis, lambda t: _swap_text_calls(t, known)):
            spoken, found = _outside_fences(spoken, step)
            kinds += found
    return Repair(text[:start] + spoken, tuple(kinds))


# --- text form -------------------------------------------------------------------------------------------------------

_Step = Callable[[str], tuple[str, list[str]]]


def _outside_fences(text: str, step: _Step) -> tuple[str, list[str]]:
    parts: list[str] = []
    kinds: list[str] = []
    position = 0
    stretches = [(block.start, block.end) for block in fences(text)]
    for start, end in [*stretches, (len(text), len(text))]:
        mended, found = step(text[position:start])
        parts += [mended, text[start:end]]
        kinds += found
        position = end
    return "".join(parts), kinds


def _drop_markup(text: str) -> tuple[str, list[str]]:
    kinds = []
    while (match := _MARKUP.search(text)) is not None:
        opening = text.index("(", match.end())
        close = closing_parenthesis(text, opening)
        mark = match[2]
        if close < 0:
            break
        rest = text[close + 1 :]
        rest = rest.removeprefix(mark)
        text = text[: match.start()] + match[1] + text[match.end() : close + 1] + rest
        kinds.append("final_in_markup")
    return text, kinds


def _drop_print(text: str) -> tuple[str, list[str]]:
    kinds = []
    while (match := _PRINT.search(text)) is not None:
        opening = text.index("(", match.start())
        inner = text.index("(", match.end())
        close, inner_close = closing_parenthesis(text, opening), closing_parenthesis(text, inner)
        if close < 0 or inner_close < 0 or text[inner_close + 1 : close].strip():
            break
        text = text[: match.start()] + match[1] + text[match.end() : inner_close + 1] + text[close + 1 :]
        kinds.append("final_in_print")
    return text, kinds


def _close_parenthesis(text: str) -> tuple[str, list[str]]:
    """Only for one unbalanced call that nothing but its own answer follows: the last of the text."""
    calls = find_calls(text)
    if len(calls) != 1 or calls[0].close >= 0 or not calls[0].inner(text).strip():
        return text, []
    body = text.rstrip()
    missing = ")"
    if closing_parenthesis(body + missing, calls[0].open) != len(body):
        return text, []
    return body + missing + text[len(body) :], ["unclosed_final"]


def _swap_text_calls(text: str, known: frozenset[str]) -> tuple[str, list[str]]:
    kinds = []
    for call in reversed(find_calls(text)):
        if call.close < 0:
            continue
        inner = call.inner(text).strip()
        quoted = string_literal(inner)
        bare = (inner if quoted is None else quoted).strip("` ")
        if call.name == "FINAL" and bare in known:
            text = f"{text[: call.start]}FINAL_VAR({bare}){text[call.close + 1 :]}"
            kinds.append("final_of_variable_name")
        elif call.name == "FINAL_VAR" and bare not in known and _is_answer_text(bare):
            text = f"{text[: call.start]}FINAL{text[call.open :]}"
            kinds.append("final_var_of_literal")
    return text, kinds[::-1]


# --- code ------------------------------------------------------------------------------------------------------------


def _repair_code(code: str, known: frozenset[str]) -> tuple[str, list[str]]:
    kinds: list[str] = []
    if _parse(code) is None:
        for mend, kind in ((_close_code, "unclosed_final"), (_quote_words, "prose_in_final_code")):
            mended = mend(code)
            if mended is not None and _parse(mended) is not None:
                code, kinds = mended, [kind]
                break
        else:
            return code, []
    tree = _parse(code)
    assert tree is not None
    edits: list[tuple[int, int, str, str]] = []
    known = known | _assigned_names(code)
    prints = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _is_print_of_final(node)]
    printed = {id(outer.args[0]): outer for outer in prints}
    for node in ast.walk(tree):
        if _name_of_final(node):
            assert isinstance(node, ast.Call)
            new = _mended_call(code, node, known)
            outer = printed.get(id(node))
            if outer is not None:
                edits.append((*_span(code, outer), new[0] if new else _source(code, node), "final_in_print"))
                kinds += [new[1]] if new else []
            elif new:
                edits.append((*_span(code, node), *new))
    for start, end, replacement, kind in sorted(edits, reverse=True):
        code = code[:start] + replacement + code[end:]
        kinds.append(kind)
    return code, kinds


def _mended_call(code: str, node: ast.Call, known: frozenset[str]) -> tuple[str, str] | None:
    """The right call for FINAL or FINAL_VAR of one constant text, with the kind of repair; None when it is right."""
    if len(node.args) != 1 or node.keywords or not isinstance(node.args[0], ast.Constant):
        return None
    value = node.args[0].value
    if not isinstance(value, str):
        return None
    if _name_of_final(node) == "FINAL" and value in known:
        return f"FINAL_VAR({value!r})", "final_of_variable_name"
    if _name_of_final(node) == "FINAL_VAR" and value not in known and _is_answer_text(value):
        return f"FINAL({_source(code, node.args[0])})", "final_var_of_literal"
    return None


def _is_answer_text(text: str) -> bool:
    """Clearly no name of a variable: words with spaces, or a list."""
    return bool(text.strip()) and not text.isidentifier() and (" " in text.strip() or text.lstrip().startswith("["))


def _close_code(code: str) -> str | None:
    body = code.rstrip()
    last = body.rpartition("\n")[2]
    return body + ")\n" if re.match(r"\s*FINAL(_VAR)?[ \t]*\(", last) else None


def _quote_words(code: str) -> str | None:
    match = _WHOLE_CALL.match(code)
    if match is None:
        return None
    opening = code.index("(")
    close = closing_parenthesis(code, opening)
    words = (code[opening + 1 : close] if close >= 0 else code[opening + 1 :]).strip()
    if close >= 0 and code[close + 1 :].strip():
        return None
    return f"FINAL({words!r})\n" if _is_answer_text(words) and words[0] not in "[{(\"'" else None


def _is_print_of_final(node: ast.Call) -> bool:
    return (
        isinstance(node.func, ast.Name)
        and node.func.id == "print"
        and len(node.args) == 1
        and not node.keywords
        and bool(_name_of_final(node.args[0]))
    )


def _name_of_final(node: ast.AST) -> str:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("FINAL", "FINAL_VAR"):
        return node.func.id
    return ""


def _assigned_names(code: str) -> set[str]:
    tree = _parse(code)
    if tree is None:
        return set()
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _parse(code: str) -> ast.Module | None:
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def _span(code: str, node: ast.expr) -> tuple[int, int]:
    """Offsets of a node in `code`; `ast` counts UTF-8 bytes within lines."""
    lines = code.splitlines(keepends=True)

    def offset(line: int, column: int) -> int:
        return sum(len(text) for text in lines[: line - 1]) + len(lines[line - 1].encode()[:column].decode())

    assert node.end_lineno is not None and node.end_col_offset is not None
    return offset(node.lineno, node.col_offset), offset(node.end_lineno, node.end_col_offset)


def _source(code: str, node: ast.expr) -> str:
    start, end = _span(code, node)
    return code[start:end]


def _rewrap(original: str, block: Fence, body: str) -> str:
    """The block's own fence lines around a new body; line ends become LF."""
    lines = original.replace("\r\n", "\n").replace("\r", "\n").splitlines()
    closing = "\n" + lines[-1] if block.closed else ""
    ending = "\n" if original.endswith(("\n", "\r")) else ""
    return f"{lines[0]}\n{body.rstrip(chr(10))}{closing}{ending}"
