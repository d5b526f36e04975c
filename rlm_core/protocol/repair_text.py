"""Repairs of an answer in text form: what stands outside of fences in a turn without code."""

from __future__ import annotations

import re
from collections.abc import Callable

from rlm_core.protocol.fences import fences
from rlm_core.protocol.finals import closing_parenthesis, find_calls, string_literal

_MARKUP = re.compile(r"^( {0,3})(`|\*\*|__)(?=(?:FINAL|FINAL_VAR)[ \t]*\()", re.MULTILINE)
_PRINT = re.compile(r"^( {0,3})print[ \t]*\([ \t]*(?=(?:FINAL|FINAL_VAR)[ \t]*\()", re.MULTILINE)
_Step = Callable[[str], tuple[str, list[str]]]


def repair_text(text: str, known: frozenset[str]) -> tuple[str, list[str]]:
    """The text with what is certain mended, and the kinds of repair in order. `known`: the variables that there are."""
    kinds: list[str] = []
    for step in (_drop_markup, _drop_print, _close_parenthesis, lambda t: _swap_calls(t, known)):
        text, found = _outside_fences(text, step)
        kinds += found
    return text, kinds


def is_answer_text(text: str) -> bool:
    """Clearly no name of a variable: words with spaces, or a list."""
    return bool(text.strip()) and not text.isidentifier() and (" " in text.strip() or text.lstrip().startswith("["))


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


def _swap_calls(text: str, known: frozenset[str]) -> tuple[str, list[str]]:
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
        elif call.name == "FINAL_VAR" and bare not in known and is_answer_text(bare):
            text = f"{text[: call.start]}FINAL{text[call.open :]}"
            kinds.append("final_var_of_literal")
    return text, kinds[::-1]
