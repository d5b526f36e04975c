"""What stands between the exact runs of a chain: OCR errors, short line ends, the passage's first and last letters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rapidfuzz.distance import Levenshtein

REACH = 400
"""Letters around a chain's ends in which a short rest of the passage (a last line) is looked for."""


class Block(NamedTuple):
    """`length` equal letters: from `g` on in the passage, from `n` on in the text."""

    g: int
    n: int
    length: int


@dataclass(frozen=True, slots=True)
class Target:
    """The noisy text's letters, and the places among them where a line begins or ends."""

    letters: str
    line_bounds: frozenset[int]


def fill_gaps(chain: Sequence[tuple[int, int, int]], gold: str, target: Target) -> list[Block]:
    """The chain's runs with what its gaps and ends hold besides, in passage order."""
    runs = [Block(*run) for run in chain]
    first, last = runs[0], runs[-1]
    blocks = _before(gold[: first.g], first.n, target)
    blocks.append(first)
    for run in runs[1:]:
        blocks += _between(blocks[-1], run, gold, target)
        blocks.append(run)
    end = last.g + last.length
    blocks += _after(gold[end:], end, last.n + last.length, target)
    return blocks


def _between(left: Block, right: Block, gold: str, target: Target) -> list[Block]:
    g0, n0 = left.g + left.length, left.n + left.length
    gap_g, gap_n = right.g - g0, right.n - n0
    if gap_g == 0:
        return []
    if 0 <= gap_n and abs(gap_n - gap_g) <= 8 + gap_g // 4:
        return _equal(gold[g0 : right.g], target.letters[n0 : right.n], g0, n0)
    # A jump: the rest of this line, then the head of the next, then a short line between the two.
    limit = right.n if gap_n >= 0 else n0 + gap_g + 4
    head = _extend(gold[g0 : right.g], target.letters[n0 : min(limit, n0 + gap_g + 4)])
    g1 = g0 + head
    floor = n0 + head if gap_n >= 0 else right.n - gap_g - 4
    rest = gold[g1 : right.g]
    tail = _extend(rest[::-1], target.letters[max(floor, right.n - len(rest) - 4, 0) : right.n][::-1])
    g2 = right.g - tail
    blocks = [Block(g0, n0, head)] if head else []
    if gap_n >= 0:
        blocks += _short_line(gold[g1:g2], g1, n0 + head, right.n - tail, target, from_left=True)
    if tail:
        blocks.append(Block(g2, right.n - tail, tail))
    return blocks


def _before(head: str, n: int, target: Target) -> list[Block]:
    """The passage's letters before the first run, which begins at text letter `n`."""
    if not head:
        return []
    window_start = max(0, n - len(head) - len(head) // 4 - 4)
    close = _anchored(head[::-1], target.letters[window_start:n][::-1])
    if close:
        return [Block(len(head) - g - length, n - m - length, length) for g, m, length in reversed(close)]
    return _short_line(head, 0, max(0, n - REACH), n, target, from_left=False)


def _after(tail: str, g: int, n: int, target: Target) -> list[Block]:
    """The passage's letters after the last run, which ends at passage letter `g` and text letter `n`."""
    if not tail:
        return []
    close = _anchored(tail, target.letters[n : n + len(tail) + len(tail) // 4 + 4])
    if close:
        done = close[-1].g + close[-1].length
        blocks = [Block(g + b.g, n + b.n, b.length) for b in close]
        if len(tail) - done >= 3:
            end = n + close[-1].n + close[-1].length
            blocks += _short_line(tail[done:], g + done, end, end + REACH, target, from_left=True)
        return blocks
    return _short_line(tail, g, n, n + REACH, target, from_left=True)


def _anchored(gold: str, text: str) -> list[Block]:
    """Equal letters of `gold` and a prefix of `text`, reading on with few errors; empty if they differ at once."""
    if len(gold) > 200:
        gold, text = gold[:200], text[:260]
    blocks = _equal(gold, text, 0, 0)
    kept: list[Block] = []
    g = n = 0
    balance = best = 0
    keep = 0
    for block in blocks:
        errors = max(block.g - g, block.n - n)
        balance += block.length - 2 * errors
        if balance < best - 8 or errors > 6:
            break
        kept.append(block)
        if balance > best:
            best, keep = balance, len(kept)
        g, n = block.g + block.length, block.n + block.length
    return kept[:keep]


def _extend(gold: str, text: str) -> int:
    """Letters by which two strings agree from their starts on."""
    count = 0
    for a, b in zip(gold, text, strict=False):
        if a != b:
            break
        count += 1
    return count


def _short_line(
    rest: str, g: int, low: int, high: int, target: Target, *, from_left: bool
) -> list[Block]:
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


def _equal(gold: str, text: str, g: int, n: int) -> list[Block]:
    """Equal letters in the cheapest edit of one string into the other."""
    return [
        Block(g + op.src_start, n + op.dest_start, op.src_end - op.src_start)
        for op in Levenshtein.opcodes(gold, text)
        if op.tag == "equal"
    ]
