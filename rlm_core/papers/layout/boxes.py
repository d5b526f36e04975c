"""Boxes of text as an engine gives them, and the lines that they form. Lengths are PDF points from the page's top left."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

from rlm_core.papers.layout.turning import Turn


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of text on one line without a wide gap in it."""

    text: str
    x0: float
    top: float
    x1: float
    bottom: float
    size: float
    """Font size; from OCR the height of the box."""
    styled: bool = False
    """Bold or italic throughout."""
    kind: str = ""
    """A paragraph's kind, where the engine gives whole labelled blocks in reading order; empty for a line."""

    @property
    def width(self) -> float:
        return self.x1 - self.x0

    @property
    def middle(self) -> float:
        return (self.top + self.bottom) / 2


@dataclass(frozen=True, slots=True)
class PageBoxes:
    """All pieces of a page, in any order."""

    number: int
    """1-based."""
    width: float
    height: float
    pieces: tuple[Piece, ...]
    """In any order; in reading order where they have a `kind`."""
    turn: Turn = 0
    """Degrees clockwise by which the page was turned to read it; sizes and boxes are of the turned page."""


@dataclass(frozen=True, slots=True)
class Line:
    """Pieces of one column on one line, joined."""

    text: str
    x0: float
    top: float
    x1: float
    bottom: float
    size: float
    styled: bool
    """Bold or italic, nearly all of it."""
    wide_gaps: int
    """Gaps of more than 1.5 font sizes between pieces: a table's cells, mostly."""
    page: int
    left: float
    """Left edge of the column that the line stands in."""
    right: float
    column: int
    """Counts columns in reading order over the whole paper; lines of one column and band share it."""
    narrow: bool = False
    """The column is a margin beside the main text."""

    @property
    def middle(self) -> float:
        return (self.top + self.bottom) / 2

    @property
    def slack(self) -> float:
        """Empty share of the column at the line's end."""
        return max(0.0, self.right - self.x1) / max(self.right - self.left, 1.0)


def to_lines(pieces: Iterable[Piece], page: int, column: int, *, exact: bool) -> list[Line]:
    """Join pieces of one column that stand on the same line; lines come from top to bottom."""
    rows: list[list[Piece]] = []
    for piece in sorted(pieces, key=lambda p: p.middle):
        for row in rows[-3:]:
            if _same_line(row, piece):
                row.append(piece)
                break
        else:
            rows.append([piece])
    lines = [_join(sorted(row, key=lambda p: p.x0), page, column) for row in rows]
    if not lines:
        return []
    starts = sorted(line.x0 for line in lines)
    left = _low(starts) if exact else starts[len(starts) // 5]  # edges from OCR shake by a point or two
    right = max(line.x1 for line in lines)
    wide = [line.x1 for line in lines if line.x1 - left > 0.6 * (right - left)]
    right = sorted(wide)[int(0.9 * (len(wide) - 1))] if wide else right
    return [replace(line, left=left, right=right) for line in sorted(lines, key=lambda r: r.middle)]


def _low(ordered: list[float]) -> float:
    """The leftmost edge that at least 2 lines share within 3 points, for one stray box must not indent a column."""
    for value, following in pairwise(ordered):
        if following - value <= 3:
            return value
    return ordered[0]


def _same_line(row: list[Piece], piece: Piece) -> bool:
    last = row[-1]
    overlap = min(last.bottom, piece.bottom) - max(last.top, piece.top)
    clash = any(min(p.x1, piece.x1) - max(p.x0, piece.x0) > 0.5 * min(p.width, piece.width) for p in row)
    return not clash and overlap > 0.5 * min(last.bottom - last.top, piece.bottom - piece.top)


def _join(row: list[Piece], page: int, column: int) -> Line:
    size = max(row, key=lambda p: len(p.text)).size
    gaps = sum(b.x0 - a.x1 > 1.5 * size for a, b in pairwise(row))
    letters = sum(len(p.text) for p in row)
    return Line(
        text=" ".join(p.text for p in row),
        x0=row[0].x0,
        top=min(p.top for p in row),
        x1=max(p.x1 for p in row),
        bottom=max(p.bottom for p in row),
        size=size,
        styled=sum(len(p.text) for p in row if p.styled) > 0.85 * letters,
        wide_gaps=gaps,
        page=page,
        left=row[0].x0,
        right=row[-1].x1,
        column=column,
    )
