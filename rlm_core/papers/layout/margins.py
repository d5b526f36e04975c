"""Running heads, page numbers and stamps: lines at the pages' edges that repeat from page to page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from rlm_core.papers.layout.boxes import PageBoxes, Piece

_EDGE = 0.11
"""Share of the page's height, at top and bottom, where running heads stand."""
_PAGE_NUMBER = re.compile(r"^\W*(?:page\s*|p\.\s*)?\d{1,4}(?:\s*(?:/|of)\s*\d{1,4})?\W*$", re.IGNORECASE)
_STAMP = re.compile(
    r"(?:doi:?\s*10\.|https?://|©|\bcopyright\b|page number not for citation|e-?issn|\(\d{4}\))", re.IGNORECASE
)


def drop_running_heads(pages: Sequence[PageBoxes]) -> list[PageBoxes]:
    """Pages without page numbers, stamps and running heads.

    A row at the edge is a running head if it stands on at least 2 pages and on a quarter of them, or if it is a short
    row that stands apart above or below all other text of a page after the first.
    """
    edges = [_edge_rows(page) for page in pages]
    needed = max(2, len(pages) / 4)
    cleaned = []
    for page, rows in zip(pages, edges, strict=True):
        dropped: set[Piece] = set()
        for row in rows:
            text = _text(row)
            repeated = len(pages) > 1 and 1 + _repeats(row, page, pages, edges) >= needed
            if _PAGE_NUMBER.match(text) or repeated:
                dropped.update(row)
        for row in rows:
            rest = [p for p in page.pieces if p not in dropped and p not in row]
            if rest and (_STAMP.search(_text(row)) or len(_text(row)) < 70):
                apart = _distance(row, rest)
                stamp = bool(_STAMP.search(_text(row))) and apart > 0
                if stamp or (page.number > 1 and apart > 0.9 * max(p.size for p in row)):
                    dropped.update(row)
        cleaned.append(replace(page, pieces=tuple(p for p in page.pieces if p not in dropped)))
    return cleaned


def _edge_rows(page: PageBoxes) -> list[list[Piece]]:
    """Rows of pieces at the page's top and bottom, each from left to right."""
    rows: list[list[Piece]] = []
    for piece in sorted(page.pieces, key=lambda p: p.middle):
        if not _EDGE * page.height < piece.middle < (1 - _EDGE) * page.height:
            if rows and abs(rows[-1][0].middle - piece.middle) < 0.4 * piece.size:
                rows[-1].append(piece)
            else:
                rows.append([piece])
    return [sorted(row, key=lambda p: p.x0) for row in rows]


def _text(row: Sequence[Piece]) -> str:
    return " ".join(piece.text for piece in row)


def _repeats(row: list[Piece], page: PageBoxes, pages: Sequence[PageBoxes], edges: list[list[list[Piece]]]) -> int:
    """Number of other pages with nearly the same words, digits aside, at the same height."""
    from rapidfuzz.fuzz import ratio

    key = _key(_text(row))
    return sum(
        any(
            abs(other[0].middle - row[0].middle) < 8 and ratio(key, _key(_text(other)), score_cutoff=85)
            for other in rows
        )
        for compared, rows in zip(pages, edges, strict=True)
        if compared.number != page.number
    )


def _key(text: str) -> str:
    return re.sub(r"\d+", "#", text.lower()).replace(" ", "")


def _distance(row: Sequence[Piece], rest: Sequence[Piece]) -> float:
    """Empty height between an outermost row and the nearest other text; 0 if other text is further out."""
    top, bottom = min(p.top for p in row), max(p.bottom for p in row)
    above = max(0.0, min(p.top for p in rest) - bottom)
    below = max(0.0, top - max(p.bottom for p in rest))
    return max(above, below)
