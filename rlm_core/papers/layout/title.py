"""Which blocks hold the paper's title."""

from __future__ import annotations

import html
from collections.abc import Sequence

from rlm_core.papers.layout import patterns
from rlm_core.papers.layout.paragraphs import Block, Measure

_SEARCHED = 14
"""Blocks from the top of page 1 among which the title is."""


def find_title(blocks: Sequence[Block], hint: str, usual: Measure) -> set[int]:
    """Numbers of the blocks that hold the title: those that spell the hint, else the largest print high on page 1."""
    first = {n: b for n, b in enumerate(blocks) if b.first.page == 1 and not b.first.narrow}
    if len(hint) > 12 and (found := _spelling(first, hint)):
        return found
    top = dict(list(first.items())[:_SEARCHED])
    sizes = {n: usual.relative_size(b.lines) for n, b in top.items()}
    candidates = [n for n, block in top.items() if _may_be_title(block)]
    # Journals print their names large, but in few words.
    weights = {n: sizes[n] * min(1.0, len(text_of(top[n]).split()) / 7) ** 0.5 for n in candidates}
    large = [n for n in candidates if sizes[n] > 1.1]
    if large:
        best = max(large, key=lambda n: (weights[n], -n))
    elif candidates and candidates[0] < 3 and len(top[candidates[0]].lines) < 4:
        return {candidates[0]}
    else:
        return set()
    least = (0.97 if usual.exact else 0.85) * sizes[best]
    same = {n for n, b in top.items() if sizes[n] > least and not patterns.ARTICLE_LABEL.match(text_of(b))}
    found = {best}
    while (follower := max(found) + 1) in same and not top[follower].first.text[:1].isdigit():
        found.add(follower)
    while (leader := min(found) - 1) in same and _close(top[leader], top[leader + 1]):
        found.add(leader)
    return found


def _spelling(first: dict[int, Block], hint: str) -> set[int]:
    """The run of up to 4 blocks that spells the hint best, if it spells it well."""
    from rapidfuzz.fuzz import ratio

    wanted = _letters(html.unescape(hint))  # publishers' programs leave entities in metadata
    best: tuple[float, int] = (85.0, 0)
    found: set[int] = set()
    for n in first:
        text = ""
        for count in range(1, 5):
            if n + count - 1 not in first:
                break
            text += _letters(text_of(first[n + count - 1]))
            score = (ratio(wanted, text), -count)
            if score > best:
                best, found = score, set(range(n, n + count))
    return found


def _letters(text: str) -> str:
    return "".join(char for char in text.casefold() if char.isalnum())


def _may_be_title(block: Block) -> bool:
    text = text_of(block)
    excluded = opens_abstract(block) or patterns.CAPTION.match(text) or patterns.ARTICLE_LABEL.match(text)
    wordy = len(text) >= 14 and " " in text and patterns.letters_share(text) > 0.7
    named = patterns.NUMBERED.match(text) or patterns.is_section_name(text)
    return wordy and not excluded and not named and len(block.lines) <= 5


def _close(above: Block, below: Block) -> bool:
    """As close as the lines of one title."""
    return 0 < below.first.top - above.last.top < 1.6 * above.size and above.last.column == below.first.column


def text_of(block: Block) -> str:
    return " ".join(line.text for line in block.lines)


def opens_abstract(block: Block) -> bool:
    text = block.first.text
    if text.lower().startswith("summary"):
        return False
    return bool(patterns.ABSTRACT.match(text)) and (block.heading or len(text) > 12)
