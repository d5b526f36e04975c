"""Texts of documents and models, made safe for a terminal."""

from __future__ import annotations

_REVERSING = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Marks that change the direction of what follows, so that it reads as something else."""
_VISIBLE = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\n\t"}
_VISIBLE |= {0x7F: "\u2421"} | dict.fromkeys((*range(0x80, 0xA0), *_REVERSING, *range(0xD800, 0xE000)), "\ufffd")


def printable(text: str) -> str:
    """`text` with control characters (C0 but newline and tab, delete, C1, reversing marks, lone surrogates) as visible signs,
    same length.

    >>> printable("red \\x1b[31m")
    'red ␛[31m'
    """
    return text.translate(_VISIBLE)
