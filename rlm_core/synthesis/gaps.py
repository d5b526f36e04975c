"""What stands between the exact runs of a chain: OCR errors, short line ends, the passage's first and last letters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from rapidfuzz.distance import Levenshtein

REACH = 400
"""Letters around a chain's ends in which a short rest of the passage (a last line) is looked for."""

FAR = 12_000
"""Letters, about two dense pages, in which a rest that stands alone on a line, and only once, is looked for."""
LONE = 12
"""Letters that such a rest needs."""


class Block(NamedTuple):
    """`length` equal letters: from `g` on in the passage, from `n` on in the text."""

    g: int
    n: int
    length: int


@dataclass(frozen=True, slots=True)
class Target:
    """The noisy text's letters, and the places among them where a line or a word begins or ends."""

    letters: str
    line_bounds: frozenset[int]
    word_bounds: frozenset[int]


def fill_gaps(chain: Sequence[Sequence[int]], gold: str, target: Target) -> list[Block]:
    """The chain's runs, cut so that none overlap, with what its gaps and ends hold besides, in passage order."""
    runs = _cut_overlaps([Block(*run) for run in chain], target)
    first, last = runs[0], runs[-1]
    blocks = _before(gold[: first.g], first.n, target)
    blocks.append(first)
    for left, right in pairwise(runs):
        blocks += _between(left, right, gold, target)
        blocks.append(right)
    end = last.g + last.length
    blocks += _after(gold[end:], end, last.n + last.length, target)
    return blocks


def _cut_overlaps(runs: list[Block], target: Target) -> list[Block]:
    """Where two runs claim the same letters (the other column's line happens to begin alike), cut at a line's or word's end."""
    kept = runs[:1]
    for right in runs[1:]:
        left = kept[-1]
        overlap = max(left.g + left.length - right.g, 0)
        if right.n >= left.n:
            overlap = max(overlap, left.n + left.length - right.n)
        overlap = min(overlap, left.length - 1, right.length - 1)
        if overlap <= 0:
            kept.append(right)
            continue
        give = max(range(overlap + 1), key=lambda x: _cut_worth(left, right, x, overlap, target))
        kept[-1] = Block(left.g, left.n, left.length - give)
        skip = overlap - give
        kept.append(Block(right.g + skip, right.n + skip, right.length - skip))
    return kept


def _cut_worth(left: Block, right: Block, give: int, overlap: int, target: Target) -> int:
    end, start = left.n + left.length - give, right.n + overlap - give
    lines = (end in target.line_bounds) + (start in target.line_bounds)
    words = (end in target.word_bounds) + (start in target.word_bounds)
    return 2 * lines + words


def _between(left: Block, right: Block, gold: str, target: Target) -> list[Block]:
    g0, n0 = left.g + left.length, left.n + left.length
    gap_g, gap_n = right.g - g0, right.n - n0
    if gap_g <= 0:
        return []
    rest = gold[g0 : right.g]
    if gap_n >= 0 and abs(gap_n - gap_g) <= 8 + gap_g // 4:
        return _equal(rest, target.letters[n0 : right.n], g0, n0)
    # A jump: the end of this line, then a short line between, then the head of the next.
    reach = gap_g + gap_g // 4 + 4
    limit = right.n if gap_n >= 0 else len(target.letters)
    head = [Block(g0 + b.g, n0 + b.n, b.length) for b in _anchored(rest, target.letters[n0 : min(limit, n0 + reach)])]
    g1, n1 = (head[-1].g + head[-1].length, head[-1].n + head[-1].length) if head else (g0, n0)
    floor = n1 if gap_n >= 0 else 0
    text = target.letters[max(floor, right.n - reach) : right.n]
    tail = [
        Block(right.g - b.g - b.length, right.n - b.n - b.length, b.length)
        for b in reversed(_anchored(gold[g1 : right.g][::-1], text[::-1]))
    ]
    g2, n2 = (tail[0].g, tail[0].n) if tail else (right.g, right.n)
    middle = _short_line(gold[g1:g2], g1, n1, n2, target, from_left=True) if gap_n >= 0 else []
    return [*head, *middle, *tail]


def _before(head: str, n: int, target: Target) -> list[Block]:
    """The passage's letters before the first run, which begins at text letter `n`."""
    if not head:
        return []
    window_start = max(0, n - len(head) - len(head) // 4 - 4)
    close = _anchored(head[::-1], target.letters[window_start:n][::-1], whole=True)
    if close:
        return [Block(len(head) - g - length, n - m - length, length) for g, m, length in reversed(close)]
    if _ends_word(n, n - len(head), target):
        return [Block(0, n - len(head), len(head))]
    return _short_line(head, 0, max(0, n - REACH), n, target, from_left=False) or _lone_line(head, 0, n, target)


def _after(tail: str, g: int, n: int, target: Target) -> list[Block]:
    """The passage's letters after the last run, which ends at passage letter `g` and text letter `n`."""
    if not tail:
        return []
    close = _anchored(tail, target.letters[n : n + len(tail) + len(tail) // 4 + 4], whole=True)
    if close:
        done = close[-1].g + close[-1].length
        blocks = [Block(g + b.g, n + b.n, b.length) for b in close]
        if len(tail) - done >= 3:
            end = n + close[-1].n + close[-1].length
            blocks += _short_line(tail[done:], g + done, end, end + REACH, target, from_left=True)
        return blocks
    if _ends_word(n, n + len(tail), target):
        return [Block(g, n, len(tail))]
    return _short_line(tail, g, n, n + REACH, target, from_left=True) or _lone_line(tail, g, n, target)


def _ends_word(inside: int, bound: int, target: Target) -> bool:
    """`inside` lies within a word and `bound`, at most three letters on, at its end: these are its misread letters."""
    return abs(bound - inside) <= 3 and bound in target.word_bounds and inside not in target.word_bounds


def _anchored(gold: str, text: str, *, whole: bool = False) -> list[Block]:
    """Equal letters of `gold` and a prefix of `text`, reading on with few errors; empty if they differ at once.

    `whole`: reaching the end of `gold` speaks for itself, so one or two errors just before it are borne.
    """
    if len(gold) > 200:
        gold, text, whole = gold[:200], text[:260], False
    # An edit into a longer text may put the last letters anywhere in it: try ends close to the passage's own first.
    widths = dict.fromkeys(min(len(gold) + more, len(text)) for more in (0, 1, -1, 2, -2, len(text)))
    return max((_read_on(gold, text[:width], whole=whole) for width in widths), key=lambda row: row[0])[1]


def _read_on(gold: str, text: str, *, whole: bool) -> tuple[int, list[Block]]:
    """The blocks up to the point where matches most outweigh errors (two letters each), and by how much."""
    kept: list[Block] = []
    g = n = 0
    balance = best = 0
    keep = 0
    for block in _equal(gold, text, 0, 0):
        errors = max(block.g - g, block.n - n)
        balance += block.length - 2 * errors
        if balance < best - 8 or errors > 6:
            break
        kept.append(block)
        g, n = block.g + block.length, block.n + block.length
        worth = balance + (3 if whole and g == len(gold) else 0)
        if worth > best:
            best, keep = worth, len(kept)
    return best, kept[:keep]


def _short_line(rest: str, g: int, low: int, high: int, target: Target, *, from_left: bool) -> list[Block]:
    """A short rest that stands alone on a line: found only if it begins or ends one, nearest place first."""
    if len(rest) < 3 or len(rest) > 40:
        return []
    letters = target.letters
    high = min(high, len(letters))
    at = letters.find(rest, low, high) if from_left else letters.rfind(rest, low, high)
    while at >= 0:
        if at in target.line_bounds or at + len(rest) in target.line_bounds:
            return [Block(g, at, len(rest))]
        at = letters.find(rest, at + 1, high) if from_left else letters.rfind(rest, low, at + len(rest) - 1)
    return []


def _lone_line(rest: str, g: int, n: int, target: Target) -> list[Block]:
    """A rest at a line's start or end, before or after, that stands nowhere else within `FAR`: it is the passage's own.

    A last line on the next page's other column may be set before the rest of the passage, or after a whole table.
    """
    if not LONE <= len(rest) <= 60:
        return []
    letters = target.letters
    low, high = max(0, n - FAR), min(len(letters), n + FAR)
    at = letters.find(rest, low, high)
    if at < 0 or letters.find(rest, at + 1, high) >= 0:
        return []
    bounded = at in target.line_bounds or at + len(rest) in target.line_bounds
    return [Block(g, at, len(rest))] if bounded else []


def _equal(gold: str, text: str, g: int, n: int) -> list[Block]:
    """Equal letters in the cheapest edit of one string into the other."""
    return [
        Block(g + op.src_start, n + op.dest_start, op.src_end - op.src_start)
        for op in Levenshtein.opcodes(gold, text)
        if op.tag == "equal"
    ]
