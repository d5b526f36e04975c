"""The whole way from boxes to a paper's text and structure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from rlm_core.papers.layout import patterns
from rlm_core.papers.layout.boxes import PageBoxes
from rlm_core.papers.layout.columns import reading_order
from rlm_core.papers.layout.joining import Words, join_lines
from rlm_core.papers.layout.kinds import classify
from rlm_core.papers.layout.labelled import is_labelled, labelled_blocks
from rlm_core.papers.layout.margins import drop_running_heads
from rlm_core.papers.layout.paragraphs import Block, Measure, measure, to_blocks
from rlm_core.papers.layout.turning import turn_back
from rlm_core.papers.records import PAGE_BREAK, Paragraph, ParagraphKind, Section

_FLOW = frozenset({"body", "abstract", "reference"})
"""Kinds whose paragraphs run on over column and page breaks."""


@dataclass(frozen=True, slots=True)
class Layout:
    """What `Paper` holds, still without an id."""

    title: str
    abstract: str
    pages: tuple[str, ...]
    sections: tuple[Section, ...]
    paragraphs: tuple[Paragraph, ...]


def assemble(pages: Sequence[PageBoxes], *, exact: bool, title_hint: str = "") -> Layout:
    """Read pages as a person does. `exact`: sizes and weights come from a text layer, not from OCR boxes."""
    if is_labelled(pages):
        blocks, usual = labelled_blocks(pages), Measure(10.0, 12.0, exact)
        return _compose(_joined(blocks, usual), pages)
    cleaned = drop_running_heads(pages)
    lines = reading_order(cleaned, exact=exact)
    usual = measure(lines, exact=exact)
    blocks = to_blocks(lines, usual)
    classify(blocks, usual, title_hint=title_hint, heights={page.number: page.height for page in pages})
    return _compose(_joined(blocks, usual), pages)


def _joined(blocks: Sequence[Block], usual: Measure) -> list[Block]:
    """The blocks of all pages with their texts, joined over breaks."""
    words = Words(line.text for block in blocks for line in block.lines)
    joined = _join_over_breaks(blocks, usual)
    for block in joined:
        block.text = join_lines([line.text for part in (block, *block.more) for line in part.lines], words)
    return joined


def _join_over_breaks(blocks: Sequence[Block], usual: Measure) -> list[Block]:
    """Join a paragraph's parts that a column, a page, a figure or a formula separates."""
    joined: list[Block] = []
    recent: list[Block] = []  # paragraphs since the last heading that may still run on, oldest first
    indented = _uses_indents(blocks, usual)
    for block in blocks:
        if block.kind in _FLOW:
            before = _runs_into(block, recent, usual, indented=indented)
            if before is not None:
                before.more.append(block)
                continue
            recent = [*recent[-3:], block]
        elif block.kind in ("heading", "title"):
            recent = []
        joined.append(block)
    return joined


def _runs_into(block: Block, recent: Sequence[Block], usual: Measure, *, indented: bool) -> Block | None:
    """The paragraph that `block` goes on with: the last one, or, for a start in lower case, an unfinished one before it."""
    alike = [before for before in recent if before.kind == block.kind]
    for steps, before in enumerate(reversed(alike)):
        if _continues(before, block, usual, indented=indented and steps == 0):
            return before
        if not block.first.text[:1].islower():
            break
    return None


def _uses_indents(blocks: Sequence[Block], usual: Measure) -> bool:
    """Whether paragraphs of this paper begin with an indent (as against a gap)."""
    long = [b for b in blocks if b.kind == "body" and len(b.lines) > 2]
    return len(long) >= 4 and sum(usual.indent(b.first) > usual.first_indent for b in long) > 0.45 * len(long)


def _continues(before: Block, block: Block, usual: Measure, *, indented: bool) -> bool:
    last, first = before.last, block.first
    tail = last.text.rstrip()
    if patterns.BULLET.match(first.text) or (block.kind == "reference" and patterns.REFERENCE_MARK.match(first.text)):
        return False
    if first.text[:1].islower():
        return not patterns.FULL_STOP.search(tail)
    if last.column == first.column:
        return False
    if tail.endswith(("-", ",", "(", "–")):
        return True
    if not patterns.SENTENCE_END.search(tail):
        return last.slack < 0.1
    if block.kind == "reference":
        return False
    return indented and last.slack < 0.03 and usual.indent(first) < 0.4 and not block.heading


def _compose(blocks: Sequence[Block], pages_read: Sequence[PageBoxes]) -> Layout:
    num_pages = len(pages_read)
    texts: list[list[str]] = [[] for _ in range(num_pages)]
    for block in blocks:
        texts[block.first.page - 1].append(block.text)
    pages = tuple(PAGE_BREAK.join(parts) for parts in texts)
    starts: list[int] = []
    position = 0
    for page in pages:
        starts.append(position)
        position += len(page) + len(PAGE_BREAK)
    total = max(0, position - len(PAGE_BREAK))
    paragraphs: list[Paragraph] = []
    section = ""
    heads: list[tuple[str, int]] = []
    inside = [0] * num_pages
    for block in sorted(blocks, key=lambda b: b.first.page):
        number = block.first.page - 1
        start = starts[number] + inside[number]
        inside[number] += len(block.text) + len(PAGE_BREAK)
        if block.kind == "heading":
            section = block.text
            heads.append((block.text, start))
        elif block.kind == "body" and (run_in := patterns.RUN_IN.match(block.text)):
            section = run_in["title"]
            heads.append((section, start))
        paragraphs.append(_paragraph(block, start, section, pages_read[number]))
    ends = [*(start for _, start in heads[1:]), total][: len(heads)]
    sections = tuple(Section(title, start, end) for (title, start), end in zip(heads, ends, strict=True))
    title = " ".join(p.text for p in paragraphs if p.kind == "title")
    return Layout(title, _abstract(paragraphs), pages, sections, tuple(paragraphs))


def _paragraph(block: Block, start: int, section: str, page: PageBoxes) -> Paragraph:
    box = (
        min(line.x0 for line in block.lines),
        min(line.top for line in block.lines),
        max(line.x1 for line in block.lines),
        max(line.bottom for line in block.lines),
    )
    if page.turn:
        sides = (page.width, page.height) if page.turn == 180 else (page.height, page.width)
        box = turn_back(box, page.turn, *sides)
    rounded = (round(box[0], 1), round(box[1], 1), round(box[2], 1), round(box[3], 1))
    return Paragraph(block.text, block.first.page, rounded, cast(ParagraphKind, block.kind), start, section)


def _abstract(paragraphs: Sequence[Paragraph]) -> str:
    """The abstract's text without its heading; a section "Summary" stands in for one."""
    own = [p.text for p in paragraphs if p.kind == "abstract"]
    if own:
        return patterns.ABSTRACT.sub("", " ".join(own), count=1).strip()
    summary = [
        p.text for p in paragraphs if p.kind == "body" and patterns.bare_heading(p.section) in ("summary", "abstract")
    ]
    return " ".join(summary[:3])


__all__ = ["Layout", "Measure", "assemble"]
