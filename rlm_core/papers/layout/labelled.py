"""Pages whose engine gives whole blocks with labels, in reading order: no gutters or paragraphs to find, only their parts."""

from __future__ import annotations

from collections.abc import Sequence

from rlm_core.papers.layout import patterns
from rlm_core.papers.layout.boxes import Line, PageBoxes, Piece
from rlm_core.papers.layout.kinds import Place
from rlm_core.papers.layout.paragraphs import Block
from rlm_core.papers.layout.title import opens_abstract, text_of


def is_labelled(pages: Sequence[PageBoxes]) -> bool:
    return any(piece.kind for page in pages for piece in page.pieces)


def labelled_blocks(pages: Sequence[PageBoxes]) -> list[Block]:
    """One block a piece; title, front matter, abstract and references are told from where the text stands."""
    blocks = [
        Block([_line(piece, page.number, number)], kind=piece.kind or "body", heading=piece.kind == "heading")
        for page in pages
        for number, piece in enumerate(page.pieces, 1000 * page.number)
    ]
    place = Place(any(opens_abstract(block) for block in blocks if block.first.page <= 2))
    titled = False
    for block in blocks:
        text = text_of(block)
        if not titled and block.first.page == 1 and block.heading and not patterns.is_section_name(text):
            block.kind, titled = "title", True
        elif block.kind in ("body", "heading"):
            place.enter(block)
            if block.kind == "body":
                block.kind = {"front": "front", "abstract": "abstract", "references": "reference"}.get(
                    place.name, "body"
                )
    return blocks


def _line(piece: Piece, page: int, column: int) -> Line:
    return Line(
        text=piece.text,
        x0=piece.x0,
        top=piece.top,
        x1=piece.x1,
        bottom=piece.bottom,
        size=10.0,
        styled=False,
        wide_gaps=0,
        page=page,
        left=piece.x0,
        right=piece.x1,
        column=column,
    )
