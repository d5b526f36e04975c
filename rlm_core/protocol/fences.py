"""Fenced blocks of a text, by the rules of CommonMark 0.31 section 4.5 for a document without other block structure.

A fence starts a line (after up to 3 spaces) with at least 3 backticks or tildes; it is closed by a line that holds only
a fence of the same sort, at least as long, or by the end of the text. A backtick fence has no backtick after it on its
line. Lists and quotes are not looked into (models write code at the margin), and a tab in an indentation is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_OPENING = re.compile(r"^( {0,3})(`{3,}|~{3,})[ \t]*(.*?)[ \t]*$")
_LINE = re.compile(r"[^\n\r]*(?:\r\n|\n|\r|$)")


@dataclass(frozen=True, slots=True)
class Fence:
    """One fenced block. `start` and `end` are offsets in the text, fence lines included."""

    info: str
    """What follows the opening fence on its line, e.g. "python"."""
    body: str
    """The lines between the fences, each ended by a line feed (CRLF becomes LF)."""
    closed: bool
    start: int
    end: int


def fences(text: str) -> list[Fence]:
    """All fenced blocks of `text`, in order. Together with the stretches between them they are the whole text."""
    found: list[Fence] = []
    opened: tuple[int, str, str, int] | None = None  # indent, marker, info, start
    body: list[str] = []
    for start, line, ending in _lines(text):
        after = start + len(line) + len(ending)
        if opened is None:
            match = _OPENING.match(line)
            if match and not (match[2][0] == "`" and "`" in match[3]):
                opened = (len(match[1]), match[2], match[3], start)
                body = []
        elif _closes(line, opened[1]):
            found.append(Fence(opened[2], "".join(body), True, opened[3], after))
            opened = None
        else:
            body.append(_without_indent(line, opened[0]) + "\n")
    if opened is not None:
        found.append(Fence(opened[2], "".join(body), False, opened[3], len(text)))
    return found


def _lines(text: str) -> Iterator[tuple[int, str, str]]:
    position = 0
    while position < len(text):
        match = _LINE.match(text, position)
        assert match is not None
        line = match[0].rstrip("\r\n")
        yield position, line, match[0][len(line) :]
        position = match.end()


def _closes(line: str, marker: str) -> bool:
    unindented = line.lstrip(" ")
    indent, stripped = len(line) - len(unindented), unindented.rstrip(" \t")
    return indent <= 3 and len(stripped) >= len(marker) and set(stripped) == {marker[0]}


def _without_indent(line: str, width: int) -> str:
    indent = len(line) - len(line.lstrip(" "))
    return line[min(indent, width) :]
