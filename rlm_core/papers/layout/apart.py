"""Headings in the print of the text, told only by the empty lines around them (many journals; OCR, which sees no bold)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from rlm_core.papers.layout import patterns
from rlm_core.papers.layout.paragraphs import Block, Measure

_GAP = 1.5
"""Pitches above and below; a paragraph of its own has less, or none."""


def mark_set_apart(blocks: Sequence[Block], usual: Measure) -> None:
    """Set `heading` of short single lines between a finished paragraph and a new one, set apart from both.

    One above and below which a paper's paragraphs stand as far apart as this line does not count: it is a short paragraph.
    """
    usual_gap = _gap_of_paragraphs(blocks, usual)
    for before, block, after in zip(blocks, blocks[1:], blocks[2:], strict=False):
        if block.heading or len(block.lines) > 1 or not _reads_as_heading(block, usual):
            continue
        above, below = (block.first.middle - before.last.middle, after.first.middle - block.last.middle)
        near = before.last.column == block.first.column == after.first.column
        apart = min(above, below) > _GAP * usual.pitch and above > 1.12 * usual_gap
        follows = before.heading or bool(patterns.FULL_STOP.search(before.last.text))
        opens = len(after.lines) > 1 and after.first.slack < 0.15 and after.first.text[:1].isupper()
        if near and apart and follows and opens and not any(line.wide_gaps for line in after.lines):
            block.heading = True


def _reads_as_heading(block: Block, usual: Measure) -> bool:
    line, text = block.first, block.first.text.strip()
    if line.narrow or line.wide_gaps or line.slack < 0.15 or not 6 <= len(text) <= 90:
        return False
    if not text[0].isupper() or text[-1] in ".,;:?!=" or patterns.letters_share(text) < 0.8:
        return False
    return not (patterns.CAPTION.match(text) or patterns.BULLET.match(text)) and usual.relative_size([line]) > 0.93


def _gap_of_paragraphs(blocks: Sequence[Block], usual: Measure) -> float:
    """Distance of the last line of a paragraph to the first of the next, where both are of 2 lines or more: the median."""
    gaps = sorted(
        b.first.middle - a.last.middle
        for a, b in pairwise(blocks)
        if a.last.column == b.first.column and min(len(a.lines), len(b.lines)) > 1 and not (a.heading or b.heading)
        and 0 < b.first.middle - a.last.middle < 4 * usual.pitch
    )  # fmt: skip
    return gaps[len(gaps) // 2] if gaps else usual.pitch
