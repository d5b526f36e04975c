"""Reading order: where a page's columns part (the gutter), what spans them, and the lines in the order a person reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from rlm_core.papers.layout.boxes import Line, PageBoxes, Piece, to_lines

_MIN_LINES = 4
"""Lines that a column must show at least."""
_MIN_COLUMN = 90.0
"""Points: no column of a paper is narrower, but a margin of notes is about as wide."""


@dataclass(frozen=True, slots=True)
class Gutter:
    """The empty strip between two columns, and how much of the page's text speaks for it."""

    x: float
    support: float


def find_gutter(pieces: Sequence[Piece], low: float, high: float) -> Gutter | None:
    """The gutter between `low` and `high`, or None on a page of one column.

    Many long pieces must start at one x (the right column's edge), others must end left of it beside them,
    and together they must be a good part of the text: cells of a table seldom are.
    """
    total = sum(len(p.text) for p in pieces)
    if total == 0 or high - low < 2 * _MIN_COLUMN:
        return None
    best: Gutter | None = None
    starts = sorted(p.x0 for p in pieces if low + _MIN_COLUMN < p.x0 < high - _MIN_COLUMN)
    for edge in sorted({round(x) for x in starts}):
        if sum(abs(x - edge) <= 2.5 for x in starts) < _MIN_LINES:
            continue
        gutter = _support(pieces, float(edge), low, high, total)
        if gutter and (best is None or gutter.support > best.support):
            best = gutter
    return best if best and best.support >= 0.3 else None


def _support(pieces: Sequence[Piece], edge: float, low: float, high: float, total: int) -> Gutter | None:
    right = [p for p in pieces if p.x0 >= edge - 2.5 and p.x1 <= high + 5 and p.width > 0.55 * (high - edge)]
    left_all = [p for p in pieces if p.x1 < edge - 3]
    if len(right) < _MIN_LINES or not left_all:
        return None
    # The left column's own right edge; few pieces may stand in the strip between.
    ends = sorted(p.x1 for p in left_all)
    end = ends[int(0.97 * (len(ends) - 1))]
    left = [p for p in left_all if p.width > 0.5 * (end - low) and len(p.text) >= 8]
    if len(left) < _MIN_LINES:
        return None
    top, bottom = (
        max(min(p.top for p in s) for s in (left, right)),
        min(max(p.bottom for p in s) for s in (left, right)),
    )
    beside = [p for s in (left, right) for p in s if top - 5 <= p.middle <= bottom + 5]
    counts = [sum(p in chosen for p in s) for s, chosen in ((left, set(beside)), (right, set(beside)))]
    if min(counts) < _MIN_LINES:
        return None
    x = (min(end, edge - 4) + edge) / 2
    crossing = sum(len(p.text) for p in pieces if p.x0 < x - 8 and p.x1 > x + 8 and top <= p.middle <= bottom)
    share = (sum(len(p.text) for p in beside) - 0.7 * crossing) / total
    if sum(len(p.text) for p in pieces if p.x0 < x - 8 and p.x1 > x + 8) < 0.05 * total:
        share = 2.5 * share  # nothing on the whole page crosses it: short columns and margins count too
    return Gutter(x, share) if share > 0 else None


def reading_order(pages: Sequence[PageBoxes], *, exact: bool) -> list[Line]:
    """All lines of the pages in reading order."""
    found = [_page_gutter(page) for page in pages]
    common = _common([g.x for g in found if g])
    lines: list[Line] = []
    column = 0
    for page, gutter in zip(pages, found, strict=True):
        x = gutter.x if gutter else None
        if common and (abs(x - common) < 25 if x is not None else _fits(page, common)):
            x = common  # numbers before references, for one, move a page's own gutter
        for chunk, narrow in _split(page.pieces, x, depth=0):
            rows = to_lines(chunk, page.number, column, exact=exact)
            lines += [replace(row, narrow=narrow) for row in rows]
            column += 1
    return lines


def _extent(pieces: Sequence[Piece]) -> tuple[float, float]:
    starts, ends = sorted(p.x0 for p in pieces), sorted(p.x1 for p in pieces)
    return starts[int(0.02 * (len(starts) - 1))], ends[int(0.98 * (len(ends) - 1))]


def _page_gutter(page: PageBoxes) -> Gutter | None:
    if len(page.pieces) < 2 * _MIN_LINES:
        return None
    return find_gutter(page.pieces, *_extent(page.pieces))


def _common(gutters: list[float]) -> float | None:
    """The gutter that most pages share, if at least two do."""
    near = [x for x in gutters if abs(x - median(gutters)) < 15] if gutters else []
    return median(near) if len(near) >= 2 else None


def _fits(page: PageBoxes, x: float) -> bool:
    """Whether a page whose own text shows no gutter has a few lines right of the common one that start at one edge."""
    starts = [p.x0 for p in page.pieces if x - 2 <= p.x0 < x + 30 and p.width > 60]
    return len(starts) >= 3 and sum(abs(s - median(starts)) < 3 for s in starts) >= 3


def _split(pieces: Sequence[Piece], gutter: float | None, *, depth: int) -> list[tuple[list[Piece], bool]]:
    """Chunks of pieces in reading order, each with whether it is a margin: full-width bands apart, left column before right."""
    if gutter is None or not pieces:
        return [(list(pieces), False)]
    low, high = _extent(pieces)
    margin_left = gutter - low < 0.36 * (high - low)
    margin_right = high - gutter < 0.3 * (high - low)
    if margin_left or margin_right:
        # A margin of notes runs beside the text: all the text first, whatever spans both.
        side = [p for p in pieces if (p.x1 <= gutter + 3 if margin_left else p.x0 >= gutter - 3)]
        main = [p for p in pieces if p not in set(side)]
        return [(main, False), (side, True)]
    chunks: list[tuple[list[Piece], bool]] = []
    for spans, part in _bands(pieces, gutter):
        chunks += [(part, False)] if spans else _columns(part, gutter, depth)
    return chunks


def _bands(pieces: Sequence[Piece], gutter: float) -> list[tuple[bool, list[Piece]]]:
    """Runs from top to bottom of what spans the gutter (True) and what does not (False)."""
    runs: list[tuple[bool, list[Piece]]] = []
    for piece in sorted(pieces, key=lambda p: p.middle):
        spans = piece.x0 < gutter - 6 and piece.x1 > gutter + 6
        if runs and (runs[-1][0] == spans or (runs[-1][0] and _same_row(runs[-1][1], piece))):
            runs[-1][1].append(piece)
        else:
            runs.append((spans, [piece]))
    merged: list[tuple[bool, list[Piece]]] = []
    for spans, part in runs:
        # One short line at the left after full-width ones is their last line, not a column.
        tail = not spans and bool(merged) and merged[-1][0] and len(part) == 1 and part[0].x1 < gutter
        if merged and (merged[-1][0] == spans or tail):
            merged[-1][1].extend(part)
        else:
            merged.append((spans, list(part)))
    return merged


def _same_row(wide: list[Piece], piece: Piece) -> bool:
    last = wide[-1]
    return min(last.bottom, piece.bottom) - max(last.top, piece.top) > 0.5 * min(last.size, piece.size)


def _columns(band: list[Piece], gutter: float, depth: int) -> list[tuple[list[Piece], bool]]:
    left = [p for p in band if (p.x0 + p.x1) / 2 < gutter]
    right = [p for p in band if (p.x0 + p.x1) / 2 >= gutter]
    chunks: list[tuple[list[Piece], bool]] = []
    for part in (left, right):
        if not part:
            continue
        inner = None
        if depth == 0 and len(part) >= 4 * _MIN_LINES:
            inner = find_gutter(part, *_extent(part))
        if inner and inner.support > 0.6:
            chunks += _split(part, inner.x, depth=1)
        else:
            chunks.append((part, False))
    return chunks
