"""Expand hand-written sentence patterns, deterministically.

A pattern is plain text with these marks::

    [a|b|c]     one of the alternatives; may nest, an alternative may be empty
    [=a|b|c]    the alternative with the same number as in the bracket before it that has no "=": for agreement
    <12..18>    a number of that range, with as many decimals as the bounds; <n=12..18> names it, <n> repeats it
    {site}      a fact of the paper
    ^           a citation, filled in by `Cite`
    %T, %F      "Table 1", "Fig. 1"
    _word_      italics, kept as they are for the typesetter

Alternatives are dealt like cards: of the papers that use a pattern, the first `m` get `m` different alternatives of
each bracket, in an order shuffled for each bracket, so that two papers rarely agree in all of them.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

Cite = Callable[[], str]
"""Returns the next citation as printed, e.g. "[4]" or "(Orlan and Pesek, 2017)"."""

_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_UNIT = re.compile(
    r"\d|[/–-]| ?(per cent|percentage|[mcknµ]?[gmsVWA]|µmol|min|h|t|kHz|Hz|MPa|kN|nm|ppb|°C|degrees|dB)\b| ?[%°]"
)
"""What keeps a small whole number in digits."""

_MARK = re.compile(
    r"(?P<number><(?:(?P<name>[a-z]+)=)?(?P<low>\d+(?:\.\d+)?)\.\.(?P<high>\d+(?:\.\d+)?)>)"
    r"|(?P<repeat><(?P<known>[a-z]+)>)"
    r"|(?P<fact>\{(?P<key>[a-z_]+)\})"
    r"|(?P<cite>\s*\^)"
)


class PatternError(ValueError):
    """A pattern that cannot be read; the message quotes it."""


def deal(key: str, rank: int, size: int) -> int:
    """Index of the alternative that user number `rank` gets: every `size` users in a row get all of them."""
    cycle, place = divmod(rank, size)
    order = list(range(size))
    random.Random(f"{key}/{cycle}").shuffle(order)
    return order[place]


@dataclass
class Expander:
    """Expands the patterns of one paragraph; named numbers live as long as it does."""

    key: str
    """Names seed, topic and theme: equal keys give equal decks."""
    rank: int
    """Place of this paper among those that use the pattern, from 0."""
    paper: str
    """Its id; seeds the numbers."""
    facts: Mapping[str, str]
    cite: Cite
    spell: bool = True
    """Write whole numbers of one digit as words, unless a unit follows."""
    numbers: dict[str, str] = field(default_factory=dict)
    chosen: int = 0
    """Index of the last alternative that was dealt, for linked brackets."""
    patterns: int = 0
    """Patterns expanded so far: keeps the decks of two lines apart."""

    def keeps(self) -> bool:
        """Whether this paper has the next optional sentence; half of them do."""
        return deal(f"{self.key}/keep{self.patterns}", self.rank, 2) == 0

    def expand(self, pattern: str) -> str:
        """The pattern as text, with single spaces; raises `PatternError` for unbalanced brackets or unknown names."""
        self.patterns += 1
        chosen, end = self._choose(pattern, 0, depth=0)
        if end != len(pattern):
            raise PatternError(f"unbalanced ']' at character {end} of the pattern {pattern!r}")
        counter = iter(range(1000))
        text = _MARK.sub(lambda match: self._fill(match, next(counter), pattern), chosen)
        text = text.replace("%T", "Table 1").replace("%F", "Fig. 1")
        return re.sub(r"\s+([,.;:)])", r"\1", re.sub(r"\s+", " ", text)).strip()

    def _choose(self, pattern: str, at: int, depth: int) -> tuple[str, int]:
        """Text of the sequence that starts at `at`, and where it ends: at '|' or ']' inside a bracket, else at the end."""
        out: list[str] = []
        while at < len(pattern):
            char = pattern[at]
            if char == "[":
                text, at = self._bracket(pattern, at, depth)
                out.append(text)
            elif (char == "|" and depth) or char == "]":
                break
            else:
                out.append(char)
                at += 1
        return "".join(out), at

    def _bracket(self, pattern: str, start: int, depth: int) -> tuple[str, int]:
        linked = pattern.startswith("[=", start)
        # Outer before inner: a bracket nested in this one must not change what a linked bracket after it refers to.
        options: list[str] = []
        at = start + linked
        before = self.chosen
        while True:
            text, at = self._choose(pattern, at + 1, depth + 1)
            options.append(text)
            if at >= len(pattern):
                raise PatternError(f"'[' at character {start} is never closed in the pattern {pattern!r}")
            if pattern[at] == "]":
                break
        if linked:
            self.chosen = before
            return options[before % len(options)], at + 1
        self.chosen = deal(f"{self.key}/{self.patterns}/{start}", self.rank, len(options))
        return options[self.chosen], at + 1

    def _fill(self, match: re.Match[str], place: int, pattern: str) -> str:
        if match["cite"]:
            return f" {self.cite()}"
        if match["fact"]:
            if match["key"] not in self.facts:
                known = ", ".join(sorted(self.facts))
                raise PatternError(f"unknown fact {{{match['key']}}} in {pattern!r}; this paper has: {known}")
            return self.facts[match["key"]]
        if match["repeat"]:
            if match["known"] not in self.numbers:
                raise PatternError(f"<{match['known']}> is used before <{match['known']}=low..high> in {pattern!r}")
            return self.numbers[match["known"]]
        number = self._draw(match["low"], match["high"], place)
        if self.spell and len(match["high"]) == 1 and not _UNIT.match(match.string, match.end()):
            number = _WORDS[int(number)]
            if re.search(r"(^|[.?!] )$", match.string[: match.start()]):
                number = number.capitalize()
        if match["name"]:
            self.numbers[match["name"]] = number
        return number

    def _draw(self, low: str, high: str, place: int) -> str:
        decimals = max(len(bound.partition(".")[2]) for bound in (low, high))
        scale = 10**decimals
        draw = random.Random(f"{self.key}/{self.paper}/{self.patterns}/{place}")
        value = draw.randint(round(float(low) * scale), round(float(high) * scale))
        return f"{value / scale:.{decimals}f}"
