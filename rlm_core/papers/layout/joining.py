"""Lines joined to text: hyphenation undone where it was made for the line break, ligatures written out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

LIGATURES = str.maketrans(
    {"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st"}
    | dict.fromkeys("\u00ad\u2010\u2011", "-")  # soft hyphen, hyphen, non-breaking hyphen
)
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_HEAD = re.compile(r"([^\W\d_]+(?:-[^\W\d_]+)*)-$")
_COMPOUNDING = frozenset(
    (
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "ten",
        "half",
        "well",
        "self",
        "long",
        "short",
        "high",
        "low",
        "non",
        "full",
    )
)
"""Words that often stand before a hyphen of their own."""
_TAIL = re.compile(r"^[^\W\d_]+")


class Words:
    """The words of one paper that stand inside lines: what decides whether a hyphen at a line's end belongs to the word."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._counts: Counter[str] = Counter()
        for line in lines:
            found = _WORD.findall(line.translate(LIGATURES).lower())
            self._counts.update(found[1:-1])

    def keeps_hyphen(self, head: str, tail: str) -> bool:
        """Whether `head-tail` is spelt with its hyphen, as elsewhere in the paper; an unseen word mostly is not."""
        joined, parted = (head + tail).lower(), f"{head}-{tail}".lower()
        if self._counts[joined] or self._counts[parted]:
            return self._counts[parted] > self._counts[joined]
        if tail[:1].isupper() or "-" in head:
            return True
        known = bool(self._counts[head.lower()] and self._counts[tail.lower()])
        return known and (head.lower() in _COMPOUNDING or (len(head) > 3 and len(tail) > 4))


def join_lines(lines: Sequence[str], words: Words) -> str:
    """One text of a paragraph's lines, white space collapsed."""
    text = ""
    for raw in lines:
        line = " ".join(raw.translate(LIGATURES).split())
        if not text or not line:
            text += line
            continue
        head, tail = _HEAD.search(text), _TAIL.match(line)
        if head and tail:
            kept = words.keeps_hyphen(head.group(1), tail.group())
            text = (text if kept else text[:-1]) + line
        elif text[-1] in "-–/" and len(text) > 1 and text[-2].isalnum() and line[0].isalnum():
            text += line
        else:
            text += " " + line
    return text
