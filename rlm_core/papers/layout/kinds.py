"""What each block is: title, front matter, abstract, heading, body, caption, table, footnote, reference or other."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

from rlm_core.papers.layout import patterns
from rlm_core.papers.layout.apart import mark_set_apart
from rlm_core.papers.layout.paragraphs import Block, Measure
from rlm_core.papers.layout.title import find_title, opens_abstract, text_of


def classify(blocks: Sequence[Block], usual: Measure, *, title_hint: str = "", heights: dict[int, float]) -> None:
    """Set `kind` of every block, in reading order. `title_hint` is the PDF's own title; `heights` are the pages' heights."""
    mark_set_apart(blocks, usual)
    titles = find_title(blocks, title_hint, usual)
    named_abstract = any(opens_abstract(b) for b in blocks if b.first.page <= 2)
    place = Place(named_abstract)
    previous: Block | None = None
    for number, block in enumerate(blocks):
        block.kind = "title" if number in titles else _kind(block, previous, place, usual, heights)
        if block.kind in ("heading", "body"):
            place.enter(block)
            if block.kind == "heading" and place.name == "front" and not _heads_front_matter(block):
                block.kind = "front"  # authors in bold
            if (
                block.kind in ("body", "heading")
                and place.name == "body"
                and patterns.looks_like_reference(text_of(block))
            ):
                block.kind = "reference"
            if block.kind == "body":
                block.kind = {"front": "front", "abstract": "abstract", "references": "reference"}.get(
                    place.name, "body"
                )
        previous = block
    if not any(b.kind in ("body", "abstract") for b in blocks):
        _without_headings(blocks)
    if not named_abstract:
        _unnamed_abstract(blocks)


def _heads_front_matter(block: Block) -> bool:
    text = block.first.text
    return patterns.is_section_name(text) or bool(patterns.NUMBERED.match(text) or patterns.KEYWORDS.match(text))


class Place:
    """The part of the paper that reading has come to: front, abstract, body or references."""

    def __init__(self, named_abstract: bool) -> None:
        self.name = "front"
        self._named_abstract = named_abstract
        self._abstract_done = False
        self._structured: set[str] = set()
        self._blocks_in_abstract = 0
        self._chars_in_abstract = 0
        self._abstract_page = 1

    def enter(self, block: Block) -> None:
        text = block.first.text.strip()
        if block.heading and patterns.REFERENCES.match(text):
            self.name = "references"
        elif self.name == "references":
            leaves = block.heading and (patterns.AFTER_REFERENCES.match(text) or patterns.NUMBERED.match(text))
            if leaves and not patterns.REFERENCE_MARK.match(text):
                self.name = "body"
        elif self.name != "body":
            self._enter_front(block, text)

    def _enter_front(self, block: Block, text: str) -> None:
        if opens_abstract(block) and not self._abstract_done:
            self.name, self._abstract_done, self._blocks_in_abstract = "abstract", True, int(not block.heading)
            self._abstract_page, self._chars_in_abstract = block.first.page, len(text_of(block))
        elif patterns.KEYWORDS.match(text):
            self.name = "front"
        elif not block.heading and self._abstract_done and self._is_past(block):
            self.name = "body"
        elif not block.heading:
            self._blocks_in_abstract += 1
            self._chars_in_abstract += len(text_of(block))
            if self.name == "abstract":
                self._structured |= {text.split(":", 1)[0].lower()}
        elif patterns.INTRODUCTION.match(text) or patterns.NUMBERED.match(text):
            self.name = "body"
        elif self.name == "abstract":
            # Headings inside a structured abstract (Background, Methods, ...) come once each, from its first line on.
            name = patterns.bare_heading(text)
            inside = (
                name in _STRUCTURE
                and name not in self._structured
                and (self._structured or not self._blocks_in_abstract)
            )
            self._structured.add(name)
            if not inside:
                self.name = "body"
        elif self._abstract_done or (patterns.is_section_name(text) and not self._named_abstract):
            self.name = "body"

    def _is_past(self, block: Block) -> bool:
        """Whether the text has left the abstract though no heading said so (the heading was lost in a margin)."""
        return block.first.page > self._abstract_page and self._chars_in_abstract > 600


_STRUCTURE = frozenset(("background", "methods", "method", "results", "objective", "aim", "purpose")) | {
    "objectives",
    "aims",
    "conclusion",
    "conclusions",
}


def _kind(block: Block, previous: Block | None, where: Place, usual: Measure, heights: dict[int, float]) -> str:
    text, place = text_of(block), where.name
    caption = patterns.CAPTION.match(text)
    if block.first.narrow:
        return "other"
    if caption and (
        caption["stop"] != " " or text[caption.end() : caption.end() + 1].isupper() or len(block.lines) == 1
    ):
        return "caption"
    if previous is not None and _carries_caption_on(previous, block, usual):
        return "caption"
    if block.heading:
        return "heading"
    if _is_table(block, previous):
        return "table"
    if place != "references" and _is_footnote(block, usual, heights):
        return "footnote"
    if patterns.KEYWORDS.match(text):
        return "body"
    if place != "references" and (patterns.letters_share(text) < 0.55 or _is_scrap(text)):
        return "other"
    if place == "body" and (_is_code(block) or _is_unfilled(block, usual)):
        return "other"
    if usual.relative_size(block.lines) < (0.9 if usual.exact else 0.85) and place == "body":
        return "other"
    return "body"


def _carries_caption_on(previous: Block, block: Block, usual: Measure) -> bool:
    """The text under a caption's bare label ("Figure 2"), or what follows a caption in the same small print."""
    if previous.kind != "caption" or previous.last.column != block.first.column or block.heading:
        return False
    label = len(text_of(previous)) < 14
    near = block.first.top - previous.last.top < 2.2 * usual.pitch
    small = usual.relative_size(block.lines) < 0.95 and usual.same_size(block.size, previous.size)
    cells = any(line.wide_gaps for line in block.lines)
    return near and (label or small) and not cells


def _is_scrap(text: str) -> bool:
    return len(text) < 25 and not patterns.FULL_STOP.search(text)


def _is_code(block: Block) -> bool:
    return mean(bool(patterns.CODE_LINE.match(line.text.strip())) for line in block.lines) >= 0.5


def _is_unfilled(block: Block, usual: Measure) -> bool:
    """Several lines none of which fills a column: cells and labels, for prose fills all lines but its last."""
    if len(block.lines) < 2 or patterns.BULLET.match(block.first.text):
        return False
    return max(line.x1 - line.x0 for line in block.lines) < 0.6 * usual.width


def _is_table(block: Block, previous: Block | None) -> bool:
    gaps = mean(line.wide_gaps > 0 for line in block.lines)
    many = mean(line.wide_gaps for line in block.lines)
    text = text_of(block)
    after = previous is not None and previous.first.page == block.first.page and (
        previous.kind == "table" or (previous.kind == "caption" and bool(patterns.TABLE_CAPTION.match(previous.first.text)))
    )  # fmt: skip
    if (gaps >= 0.5 and len(block.lines) >= 2) or many >= 1.5:
        return True
    if not after:
        return False
    fill = mean((line.x1 - line.x0) / max(1.0, line.right - line.left) for line in block.lines)
    return gaps > 0 or fill < 0.55 or patterns.letters_share(text) < 0.6


def _is_footnote(block: Block, usual: Measure, heights: dict[int, float]) -> bool:
    low = block.first.top > 0.6 * heights.get(block.first.page, 1e9)
    marked = bool(patterns.FOOTNOTE.match(block.first.text))
    return low and usual.relative_size(block.lines) < (0.93 if marked else 0.86)


def _without_headings(blocks: Sequence[Block]) -> None:
    """A paper that shows no heading at all: its long paragraphs are its body."""
    for block in blocks:
        if block.kind == "front" and len(text_of(block)) > 200:
            block.kind = "body"


def _unnamed_abstract(blocks: Sequence[Block]) -> None:
    """Without the word "Abstract": the longest paragraph before the first heading, if it is as long as one."""
    before = []
    for block in blocks:
        if block.kind == "heading" and block.first.page <= 2 and not opens_abstract(block):
            break
        if block.kind in ("front", "body") and block.first.page <= 2:
            before.append(block)
    longest = max(before, key=lambda b: len(text_of(b)), default=None)
    if longest is not None and len(text_of(longest)) > 250:
        longest.kind = "abstract"
