"""What `search` returns: passages that are strings and know where they come from. Standard library only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, SupportsIndex, overload

SHOWN_CHARS = 180
"""Characters of a passage that printing a list shows; eight passages fit into a small model's observation."""


class Passage(str):
    """A piece of a paper's text: `context[paper]["text"][start:end]`. `hit` is the offset in it to show when cut short."""

    paper: str
    start: int
    end: int
    hit: int

    def __new__(cls, text: str, paper: str = "", start: int = 0, end: int | None = None, hit: int = 0) -> Passage:
        self = super().__new__(cls, text)
        self.paper, self.start, self.hit = paper, start, hit
        self.end = start + len(text) if end is None else end
        return self

    def __getnewargs__(self) -> tuple[Any, ...]:
        return (str(self), self.paper, self.start, self.end, self.hit)

    def line(self, chars: int = SHOWN_CHARS) -> str:
        """The passage on one line, cut to `chars` around the hit."""
        head = " ".join(self[: self.hit].split())
        flat = " ".join(self.split())
        if len(flat) <= chars:
            return flat
        first = max(0, min(len(head) - chars // 3, len(flat) - chars))
        if first:
            first = flat.find(" ", first) + 1
        last = flat.rfind(" ", first, first + chars) if first + chars < len(flat) else len(flat)
        return ("..." if first else "") + flat[first:last] + ("..." if last < len(flat) else "")


class Passages(list[Passage]):
    """A list of passages that prints as numbered lines `[0] (paper) text`; slices print the same way."""

    def __init__(self, items: Iterable[Passage] = (), note: str = "") -> None:
        super().__init__(items)
        self.note = note

    def __repr__(self) -> str:
        lines = [self.note] if self.note else []
        lines += [f"[{i}] ({p.paper}) {p.line()}" for i, p in enumerate(self)]
        return "\n".join(lines) if lines else "[]"

    __str__ = __repr__

    @overload
    def __getitem__(self, index: SupportsIndex) -> Passage: ...
    @overload
    def __getitem__(self, index: slice) -> Passages: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Passage | Passages:
        if isinstance(index, slice):
            return Passages(super().__getitem__(index), self.note)
        return super().__getitem__(index)


class Lines(list[str]):
    """A list of strings that prints one a line."""

    def __repr__(self) -> str:
        return "\n".join(self) if self else "[]"

    __str__ = __repr__
