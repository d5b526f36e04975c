"""An index over one noisy text: finds phrases in spite of case, accents, ligatures, run-together words and line breaks.

The text is folded to lower-case letters and digits without anything between them ("squeezed"); a squeezed offset maps back
to the text through the starts of its tokens. So "data base", "data-\\nbase" and "DATABASE" are one string.
Standard library only: this runs inside the sandbox.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from bisect import bisect_right
from functools import cached_property

_LIGATURES = {"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st"}  # fmt: skip
_TOKEN = re.compile(r"\(cid:\d+\)|[^\W_ﬀ-ﬆ]+|[ﬀ-ﬆ]")
_SENTENCE_END = re.compile(r"[.!?][\"'”’)\]]*\s+(?=[\"'“‘(\[]?[A-Z0-9])")
_HYPHEN_INSIDE = re.compile(r"[a-z]{2}- [a-zA-Z]{2}")
_GLUED_HYPHEN = re.compile(r"[a-z]{2}-[a-zA-Z]{2}")
_CUT_WORD = re.compile(r"([a-z]{2,})-$")
_REFERENCES = re.compile(r"(?im)^[\W\d]*(?:references|bibliography|literature cited|works cited)\W*$")


def fold(text: str) -> str:
    """Lower case without accents; same length as `text`, ligatures kept as they are."""
    if text.isascii():
        return text.lower()
    table = {ord(c): _fold_char(c) for c in set(text)}
    return text.translate(table)


def _fold_char(char: str) -> str:
    if char in _LIGATURES:
        return char
    base = unicodedata.normalize("NFKD", char)[:1] or char
    return base.lower()[:1] or char


def tokens_of(text: str) -> list[tuple[int, str]]:
    """(offset, folded token) of each run of letters and digits; a ligature is a token of its own; `(cid:12)` is none."""
    return [
        (match.start(), _LIGATURES.get(match.group(), match.group()))
        for match in _TOKEN.finditer(fold(text))
        if match.group()[0] != "("
    ]


class TextIndex:
    """One text, ready to be searched; built in about 1 ms per 10,000 characters."""

    def __init__(self, text: str) -> None:
        self.text = text
        tokens = tokens_of(text)
        self.words = [token for _, token in tokens]
        self.squeezed = "".join(self.words)
        self._origin = array("L", (start for start, _ in tokens))
        self._place = array("L")
        position = 0
        for token in self.words:
            self._place.append(position)
            position += len(token)

    def original(self, start: int, end: int) -> tuple[int, int]:
        """Offsets in the text of the squeezed half-open range `start`..`end` (not empty)."""
        first = bisect_right(self._place, start) - 1
        last = bisect_right(self._place, end - 1) - 1
        begin = self._origin[first] + self._inside(first, start - self._place[first])
        stop = self._origin[last] + self._inside(last, end - 1 - self._place[last]) + 1
        return begin, stop

    def _inside(self, token: int, offset: int) -> int:
        # A ligature is one character of the text but two or three squeezed ones.
        return 0 if self.text[self._origin[token]] in _LIGATURES else offset

    def starts_word(self, position: int) -> bool:
        """Whether the squeezed position is the first character of a word of the text."""
        return self._place[bisect_right(self._place, position) - 1] == position

    def ends_word(self, position: int) -> bool:
        """Whether a word of the text ends just before the squeezed position."""
        return position >= len(self.squeezed) or self.starts_word(position)

    def find(self, needle: str, *, limit: int = 400) -> list[int]:
        """Squeezed positions of a squeezed needle; under 4 letters only whole words count, under 6 only at a word's start."""
        found: list[int] = []
        position = self.squeezed.find(needle)
        while position >= 0 and len(found) < limit:
            if (len(needle) > 5 or self.starts_word(position)) and (
                len(needle) > 3 or self.ends_word(position + len(needle))
            ):
                found.append(position)
            position = self.squeezed.find(needle, position + 1)
        return found

    @cached_property
    def interleaved(self) -> bool:
        """Whether two columns seem to be read as one, told by where hyphenated words go on.

        Either both columns stand on one line, and word parts with a hyphen in its middle; or lines of the columns take
        turns, and a word cut at a line's end goes on two lines below more often than on the next.
        """
        lines = [line for line in self.text.split("\n") if line.strip()]
        if len(lines) < 8:
            return False
        inside = sum(bool(_HYPHEN_INSIDE.search(line, 15, max(15, len(line) - 15))) for line in lines)
        if inside >= 0.03 * len(lines):
            return True
        if self._full_width > 100:  # wider than one column is set; words may be glued here
            return sum(bool(_GLUED_HYPHEN.search(line, 15)) for line in lines) >= 0.06 * len(lines)
        known = set(self.words)
        following = alternate = 0
        for line, one, two in zip(lines, lines[1:], lines[2:], strict=False):
            if head := _CUT_WORD.search(line):
                next_word, other_word = ((head.group(1) + _first_word(below)).lower() for below in (one, two))
                following += next_word in known
                alternate += other_word in known and next_word not in known
        return alternate > following

    @cached_property
    def _full_width(self) -> int:
        """Length of a full line: the 80th percentile."""
        lengths = sorted(len(line) for line in self.text.split("\n") if line.strip())
        return lengths[int(0.8 * (len(lengths) - 1))] if lengths else 0

    @cached_property
    def references_start(self) -> int:
        """Offset of the list of references, or the text's length."""
        starts = [match.start() for match in _REFERENCES.finditer(self.text)]
        return next((start for start in starts if start > 0.4 * len(self.text)), len(self.text))

    @cached_property
    def blocks(self) -> array[int]:
        """Starts of paragraphs, as far as the lines show them, and the text's length at the end."""
        starts = array("L", [0])
        offset, previous = 0, ""
        wrapped = self._full_width < 200
        for line in self.text.split("\n"):
            if offset and self._breaks(previous, line, wrapped):
                starts.append(offset)
            offset += len(line) + 1
            previous = line
        starts.append(len(self.text))
        return starts

    def _breaks(self, previous: str, line: str, wrapped: bool) -> bool:
        if not previous.strip() or not line.strip() or not wrapped:
            return True
        if self.interleaved:
            return False
        ended = len(previous) < 0.8 * self._full_width and previous.rstrip()[-1] in ".!?:)"
        heading = len(line) < 0.6 * self._full_width and line.rstrip()[-1:] not in ".,;:-" and line[:1].isupper()
        return (ended and not line[:1].islower()) or (heading and previous.rstrip()[-1] in ".!?:")

    def around(self, start: int, end: int, window: int) -> tuple[int, int]:
        """The paragraph that holds `start`..`end`, or, of a paragraph over twice `window`, whole sentences or lines around it.

        In interleaved columns the lines around it, half as many again, for much of them belongs to the other column: of
        1, 1.5 and 2 times the window this gave the best F1 of passages found by three words against their paragraphs.
        """
        block = bisect_right(self.blocks, start) - 1
        low = self.blocks[min(block, len(self.blocks) - 2)]
        high = self.blocks[max(1, min(bisect_right(self.blocks, end - 1), len(self.blocks) - 1))]
        if high - low > 2 * window:
            low, high = self._grow(start, end, low, high, window)
        while low < start and self.text[low].isspace():
            low += 1
        while high > end and self.text[high - 1].isspace():
            high -= 1
        return low, high

    def _grow(self, start: int, end: int, low: int, high: int, window: int) -> tuple[int, int]:
        wanted = 1.5 * window if self.interleaved else window
        spare = max(0, int(wanted) - (end - start)) // 2
        first, last = max(low, start - spare), min(high, end + spare)
        if self.interleaved:
            first = self.text.rfind("\n", low, first) + 1 or low
            newline = self.text.find("\n", last, high)
            return first, newline if newline >= 0 else high
        # Reach at most half a window further for the sentence's ends, else stop at a space.
        ends = [match.end() for match in _SENTENCE_END.finditer(self.text, max(low, first - window // 2), start)]
        before = [e for e in ends if e <= first]
        first = before[-1] if before else (low if first - low < window // 2 else _space(self.text, first, low))
        after = _SENTENCE_END.search(self.text, last, min(high, last + window // 2))
        if after:
            return first, after.end()
        if high - last < window // 2:
            return first, high
        space = self.text.find(" ", last, high)
        return first, space if space >= 0 else high


def _first_word(line: str) -> str:
    match = re.match(r"[a-z]+", line)
    return match.group() if match else "-"


def _space(text: str, position: int, low: int) -> int:
    space = max(text.rfind(" ", low, position), text.rfind("\n", low, position))
    return space + 1 if space >= 0 else low
