"""What each block is: title, front matter, abstract, heading, body, caption, table, footnote, reference or other."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

from rlm_core.papers.layout import patterns
from rlm_core.papers.layout.paragraphs import Block, Measure


def classify(blocks: Sequence[Block], usual: Measure, *, title_hint: str = "", heights: dict[int, float]) -> None:
    """Set `kind` of every block, in reading order. `title_hint` is the PDF's own title; `heights` are the pages' heights."""
    titles = find_title(blocks, title_hint)
    place = "front"  # then abstract, body, references
    previous: Block | None = None
    named_abstract = any(_opens_abstract(b) for b in blocks if b.first.page <= 2)
    for number, block in enumerate(blocks):
        block.kind = _kind(block, previous, place, usual, heights)
        if number in titles:
            block.kind = "title"
        elif block.kind in ("heading", "body", "abstract", "front", "reference"):
            place = _place(block, place, named_abstract)
            if block.kind not in ("heading",):
                block.kind = {"front": "front", "abstract": "abstract", "references": "reference"}.get(
                    place, block.kind
                )
            if block.kind in ("front", "abstract", "reference") and place == "body":
                block.kind = "body"
        previous = block
    if not any(b.kind in ("heading", "abstract") for b in blocks):
        _without_headings(blocks)
    elif not named_abstract:
        _unnamed_abstract(blocks)


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
        (block.size, -n)
        for n, block in first[:14]
        if len(_text(block)) >= 14 and " " in _text(block) and patterns.letters_share(_text(block)) > 0.7
        and len(block.lines) <= 5 and not _opens_abstract(block) and not patterns.CAPTION.match(block.first.text)
    ]  # fmt: skip
    if not candidates:
        return set()
    size, number = max(candidates)
    largest = {-n for s, n in candidates if s > 0.92 * size}
    found = {min(largest)}
    while (follower := max(found) + 1) in largest:
        found.add(follower)
    return found


def _text(block: Block) -> str:
    return " ".join(line.text for line in block.lines)


def _opens_abstract(block: Block) -> bool:
    text = block.first.text
    if text.lower().startswith("summary"):
        return False
    return bool(patterns.ABSTRACT.match(text)) and (block.heading or len(text) > 12)


def _place(block: Block, place: str, named_abstract: bool) -> str:
    """The part of the paper that this block stands in."""
    text = block.first.text.strip()
    if block.heading and patterns.REFERENCES.match(text):
        return "references"
    if place == "references":
        leaves = block.heading and (patterns.AFTER_REFERENCES.match(text) or patterns.NUMBERED.match(text))
        return "body" if leaves and not patterns.REFERENCE_MARK.match(text) else place
    if _opens_abstract(block) and place in ("front", "abstract"):
        return "abstract"
    if patterns.KEYWORDS.match(text) and place in ("front", "abstract"):
        return "front"
    if block.heading and place in ("front", "abstract"):
        strong = bool(patterns.INTRODUCTION.match(text) or patterns.NUMBERED.match(text))
        if strong:
            return "body"
        # Headings inside a structured abstract (Background, Methods, ...) do not end it.
        if place == "abstract":
            structured = patterns.bare_heading(text) in ("background", "methods", "results", "conclusions", "conclusion",
                                                         "objective", "objectives", "aim", "purpose")  # fmt: skip
            return "abstract" if structured else "body"
        return "body" if patterns.is_section_name(text) and not named_abstract else place
    return place


def _kind(block: Block, previous: Block | None, place: str, usual: Measure, heights: dict[int, float]) -> str:
    text = _text(block)
    caption = patterns.CAPTION.match(text)
    if block.first.narrow:
        return "other"
    if caption and (
        caption["stop"] != " " or text[caption.end() : caption.end() + 1].isupper() or len(block.lines) == 1
    ):
        return "caption"
    if _is_table(block, previous):
        return "table"
    if place != "references" and _is_footnote(block, usual, heights):
        return "footnote"
    if block.heading:
        return "heading"
    if place != "references" and (patterns.letters_share(text) < 0.55 or _is_scrap(text)):
        return "other"
    return "body"


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
