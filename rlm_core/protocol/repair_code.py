"""Repairs of code that calls FINAL or FINAL_VAR, by its syntax tree."""

from __future__ import annotations

import ast
import re

from rlm_core.protocol.finals import closing_parenthesis
from rlm_core.protocol.repair_text import is_answer_text

_WHOLE_CALL = re.compile(r"\A\s*(FINAL|FINAL_VAR)[ \t]*\((.*)\)?\s*\Z", re.DOTALL)


def repair_code(code: str, known: frozenset[str]) -> tuple[str, list[str]]:
    """The code with what is certain mended, and the kinds of repair. `known`: the variables that there are before it."""
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
    known = known | assigned_names(code)
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
    if _name_of_final(node) == "FINAL_VAR" and value not in known and is_answer_text(value):
        return f"FINAL({_source(code, node.args[0])})", "final_var_of_literal"
    return None


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
    return f"FINAL({words!r})\n" if is_answer_text(words) and words[0] not in "[{(\"'" else None


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


def assigned_names(code: str) -> set[str]:
    """Names that the code binds anywhere; none where it is no Python."""
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
