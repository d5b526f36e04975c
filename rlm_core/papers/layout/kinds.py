"""What each block is: title, front matter, abstract, heading, body, caption, table, footnote, reference or other."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

from rlm_core.papers.layout import patterns
from rlm_core.papers.layout.paragraphs import Block, Measure


def classify(blocks: Sequence[Block], usual: Measure, *, title_hint: str = "", heights: dict[int, float]) -> None:
    """Set `kind` of every block, in reading order. `title_hint` is the PDF's own title; `heights` are the pages' heights."""
    titles = find_title(blocks, title_hint)
    named_abstract = any(_opens_abstract(b) for b in blocks if b.first.page <= 2)
    place = Place(named_abstract)
    previous: Block | None = None
    for number, block in enumerate(blocks):
        block.kind = "title" if number in titles else _kind(block, previous, place, usual, heights)
        if block.kind in ("heading", "body"):
            place.enter(block)
            if block.kind == "heading" and place.name == "front" and not _heads_front_matter(block):
                block.kind = "front"  # authors in bold
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
        if _opens_abstract(block) and not self._abstract_done:
            self.name, self._abstract_done, self._blocks_in_abstract = "abstract", True, int(not block.heading)
            self._abstract_page, self._chars_in_abstract = block.first.page, len(_text(block))
        elif patterns.KEYWORDS.match(text):
            self.name = "front"
        elif not block.heading and self.name == "abstract" and self._is_past(block):
            self.name = "body"
        elif not block.heading:
            self._blocks_in_abstract += 1
            self._chars_in_abstract += len(_text(block))
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


_STRUCTURE = frozenset(
    ("background", "methods", "method", "results", "objective", "objectives", "aim", "aims", "purpose")
) | {
    "conclusions",
    "conclusion",
}


def find_title(blocks: Sequence[Block], hint: str) -> set[int]:
    """Numbers of the blocks that hold the title: those that spell the hint, else the largest print high on page 1."""
    from rapidfuzz.fuzz import partial_ratio, ratio

    first = [(n, b) for n, b in enumerate(blocks) if b.first.page == 1 and not b.first.narrow]
    if len(hint) > 12:
        for n, block in first:
            text = _text(block)
            if ratio(hint.lower(), text.lower()) > 85:
                return {n}
            if len(text) > 12 and partial_ratio(text.lower(), hint.lower()) > 92 and len(text) < len(hint):
                tail = [
                    m for m, b in first if m > n and m <= n + 2 and partial_ratio(_text(b).lower(), hint.lower()) > 92
                ]
                return {n, *tail}
    candidates = [
        (block.size * min(1.0, len(_text(block).split()) / 7) ** 0.5, -n)
        for n, block in first[:14]
        if len(_text(block)) >= 14 and " " in _text(block) and patterns.letters_share(_text(block)) > 0.7
        and len(block.lines) <= 5 and not _opens_abstract(block) and not patterns.CAPTION.match(block.first.text)
        and not patterns.ARTICLE_LABEL.match(_text(block))
    ]  # fmt: skip
    if not candidates:
        return set()
    best = -max(candidates)[1]
    size = blocks[best].size
    same = {n for n, b in first[:14] if b.size > 0.92 * size and not patterns.ARTICLE_LABEL.match(_text(b))}
    found = {best}
    while (follower := max(found) + 1) in same and not blocks[follower].first.text[:1].isdigit():
        found.add(follower)
    while (leader := min(found) - 1) in same and usual_gap(blocks[leader], blocks[leader + 1]):
        found.add(leader)
    return found


def usual_gap(above: Block, below: Block) -> bool:
    """Whether two blocks are as close as the lines of one title."""
    return 0 < below.first.top - above.last.top < 1.6 * above.size and above.last.column == below.first.column


def _text(block: Block) -> str:
    return " ".join(line.text for line in block.lines)


def _opens_abstract(block: Block) -> bool:
    text = block.first.text
    if text.lower().startswith("summary"):
        return False
    return bool(patterns.ABSTRACT.match(text)) and (block.heading or len(text) > 12)


def _kind(block: Block, previous: Block | None, where: Place, usual: Measure, heights: dict[int, float]) -> str:
    text, place = _text(block), where.name
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
    if usual.exact and block.size < 0.9 * usual.size and place == "body":
        return "other"
    return "body"


def _carries_caption_on(previous: Block, block: Block, usual: Measure) -> bool:
    """The text under a caption's bare label ("Figure 2"), or what follows a caption in the same small print."""
    if previous.kind != "caption" or previous.last.column != block.first.column or block.heading:
        return False
    label = len(_text(previous)) < 14
    near = block.first.top - previous.last.top < 2.2 * usual.pitch
    small = usual.exact and block.size < 0.95 * usual.size and usual.same_size(block.size, previous.size)
    return near and (label or small)


def _is_scrap(text: str) -> bool:
    return len(text) < 25 and not patterns.FULL_STOP.search(text) and not text[:1].islower()


def _is_table(block: Block, previous: Block | None) -> bool:
    gaps = mean(line.wide_gaps > 0 for line in block.lines)
    many = mean(line.wide_gaps for line in block.lines)
    text = _text(block)
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
    small = block.size < (0.93 if usual.exact else 0.88) * usual.size
    return (
        low
        and small
        and (bool(patterns.FOOTNOTE.match(block.first.text)) or (usual.exact and block.size < 0.86 * usual.size))
    )


def _without_headings(blocks: Sequence[Block]) -> None:
    """A paper that shows no heading at all: its long paragraphs are its body."""
    for block in blocks:
        if block.kind == "front" and len(_text(block)) > 200:
            block.kind = "body"


def _unnamed_abstract(blocks: Sequence[Block]) -> None:
    """Without the word "Abstract": the longest paragraph before the first heading, if it is as long as one."""
    before = []
    for block in blocks:
        if block.kind == "heading" and block.first.page <= 2 and not _opens_abstract(block):
            break
        if block.kind in ("front", "body") and block.first.page <= 2:
            before.append(block)
    longest = max(before, key=lambda b: len(_text(b)), default=None)
    if longest is not None and len(_text(longest)) > 250:
        longest.kind = "abstract"
