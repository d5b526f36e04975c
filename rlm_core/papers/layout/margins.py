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
    """Pages without page numbers and without edge lines that stand on at least 2 pages and on a quarter of them."""
    edges = [[p for p in page.pieces if _at_edge(p, page)] for page in pages]
    needed = max(2, len(pages) / 4)
    cleaned = []
    for page, own in zip(pages, edges, strict=True):
        dropped = {
            piece
            for piece in own
            if _PAGE_NUMBER.match(piece.text) or (len(pages) > 1 and 1 + _repeats(piece, page, pages, edges) >= needed)
        }
        dropped |= {p for p in own if _STAMP.search(p.text) and _outermost(p, page, dropped)}
        cleaned.append(replace(page, pieces=tuple(p for p in page.pieces if p not in dropped)))
    return cleaned


def _at_edge(piece: Piece, page: PageBoxes) -> bool:
    return piece.middle < _EDGE * page.height or piece.middle > (1 - _EDGE) * page.height


def _repeats(piece: Piece, page: PageBoxes, pages: Sequence[PageBoxes], edges: list[list[Piece]]) -> int:
    """Number of other pages with nearly the same words, digits aside, at the same height."""
    from rapidfuzz.fuzz import ratio

    key = _key(piece.text)
    return sum(
        any(abs(p.middle - piece.middle) < 8 and ratio(key, _key(p.text), score_cutoff=85) for p in own)
        for other, own in zip(pages, edges, strict=True)
        if other.number != page.number
    )


def _key(text: str) -> str:
    return re.sub(r"\d+", "#", text.lower()).replace(" ", "")


def _outermost(piece: Piece, page: PageBoxes, dropped: set[Piece]) -> bool:
    """Whether no other text is further out: a journal's stamp on a single page."""
    rest = [p for p in page.pieces if p not in dropped and p is not piece]
    if piece.middle < page.height / 2:
        return all(p.middle >= piece.middle - 2 for p in rest)
    return all(p.middle <= piece.middle + 2 for p in rest)
