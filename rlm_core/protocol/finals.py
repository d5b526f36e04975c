"""The text form of an answer: `FINAL(...)` or `FINAL_VAR(...)` at the start of a line, with balanced parentheses."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import dataclass
from typing import Any, Literal

OPENING = re.compile(r"^ {0,3}(FINAL_VAR|FINAL)[ \t]*\(", re.MULTILINE)
_QUOTES = ('"""', "'''", '"', "'")
_BEFORE_LITERAL = "([{,:="
_MAX_LITERAL = 200_000
_MAX_CALLS = 20
"""An unbalanced call costs a look at all the text after it; more than this many answers are noise."""


@dataclass(frozen=True, slots=True)
class Final:
    """An answer in text form.

    >>> Final("value", '["a", "b"]').value
    ['a', 'b']
    >>> Final("value", "42").value
    '42'
    """

    kind: Literal["value", "var"]
    text: str
    """What stands between the parentheses, trimmed; without its quotes where it is one quoted text or a name."""
    quoted: bool = False
    """The value was one quoted text: it stays a text whatever it looks like."""

    @property
    def value(self) -> Any:
        """The answer as data: a list where the text is a list literal (JSON or Python), else the text itself.

        Numbers, booleans, dicts and anything else that merely looks like a literal stay texts.
        """
        if self.kind == "value" and not self.quoted and self.text.startswith("[") and self.text.endswith("]"):
            listed = _list_literal(self.text)
            if listed is not None:
                return listed
        return self.text


@dataclass(frozen=True, slots=True)
class Call:
    """Where a text form stands: `start` of the name, `open` and `close` of the parentheses (`close` -1 if unbalanced)."""

    name: str
    start: int
    open: int
    close: int

    def inner(self, text: str) -> str:
        return text[self.open + 1 : self.close if self.close >= 0 else len(text)]


def find_calls(text: str) -> list[Call]:
    """Every FINAL or FINAL_VAR at a line start that is not inside another's parentheses."""
    calls: list[Call] = []
    position = 0
    while len(calls) < _MAX_CALLS and (match := OPENING.search(text, position)) is not None:
        opening = match.end() - 1
        close = closing_parenthesis(text, opening)
        calls.append(Call(match[1], match.start(1), opening, close))
        position = close + 1 if close >= 0 else match.end()
        # `^` matches at `position` too, which after a call is mid-line unless a line ends there
        while position < len(text) and position > 0 and text[position - 1] != "\n":
            following = text.find("\n", position)
            position = len(text) if following < 0 else following + 1
    return calls


def closing_parenthesis(text: str, opening: int) -> int:
    """Offset of the parenthesis that closes the one at `opening`; -1 when there is none.

    A quote opens a string only where a literal may stand (after a bracket, comma, colon or equals sign) and only when
    it is closed again; an apostrophe in a sentence is a letter. Parentheses inside strings do not count.
    """
    depth, position = 0, opening
    while position < len(text):
        letter = text[position]
        if letter == "(":
            depth += 1
        elif letter == ")":
            depth -= 1
            if depth == 0:
                return position
        elif letter in "\"'" and _may_open_string(text, position):
            position = _end_of_string(text, position)
            continue
        position += 1
    return -1


def _may_open_string(text: str, position: int) -> bool:
    before = position - 1
    while before >= 0 and text[before].isspace():
        before -= 1
    if before >= 0 and text[before] in "rbfuRBFU" and before == position - 1:
        before -= 1
    return before < 0 or text[before] in _BEFORE_LITERAL


def _end_of_string(text: str, start: int) -> int:
    """Offset after the string that starts at `start`; one letter further when it is never closed."""
    quote = next(q for q in _QUOTES if text.startswith(q, start))
    position = start + len(quote)
    while position < len(text):
        if text[position] == "\\":
            position += 2
            continue
        if text.startswith(quote, position):
            return position + len(quote)
        if len(quote) == 1 and text[position] == "\n":
            break
        position += 1
    return start + 1


def final_of(name: str, inner: str) -> Final:
    """The answer that a call with this text between its parentheses gives."""
    text = inner.strip()
    if name == "FINAL_VAR":
        return Final("var", text.strip("`'\" \t\n"))
    quoted = string_literal(text)
    return Final("value", text) if quoted is None else Final("value", quoted, quoted=True)


def string_literal(text: str) -> str | None:
    """The text that one Python string literal stands for; None for anything else."""
    if not text or text[-1] not in "\"'" or len(text) > _MAX_LITERAL:
        return None
    value = _literal(text)
    return value if isinstance(value, str) else None


def _list_literal(text: str) -> list[Any] | None:
    if len(text) > _MAX_LITERAL:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = _literal(text)
    return value if isinstance(value, list) and _is_json(value) else None


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return None


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (ValueError, TypeError, RecursionError):
        return False
    return True
