"""Find a passage of clean text in a parser's noisy text: `locate`, and `TextIndex` for many passages.

Method: both texts become streams of letters (`streams`); runs of 8 equal letters seed maximal common runs; runs that
fit together are chained (`chain`); gaps of a chain are compared letter by letter (`gaps`); what then holds enough
of the passage is a span. Its pieces are the stretches without foreign text between.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlm_core.records import Span
from rlm_core.synthesis.chain import MAX_JUMP, best_chain
from rlm_core.synthesis.gaps import REACH, Block, Target, fill_gaps
from rlm_core.synthesis.streams import GramIndex, Ints, Stream

MIN_SCORE = 0.6
"""Share of the passage's letters under which it counts as absent. Passages of other papers reach 0.2 at most."""
SEED = 8
CORE_RUN = 12
"""A place is looked at only where a common run this long lies."""
SHORT = 24
"""Letters under which a passage must stand in the text letter by letter: too short for anything else to be proof."""
MAX_SPANS = 1000


def locate(gold_text: str, noisy_text: str, *, min_score: float = MIN_SCORE) -> list[Span]:
    """Every occurrence of `gold_text` in `noisy_text`, best first (then in text order); empty when it is absent.

    `start` and `end` of a span are its envelope in `noisy_text`; `pieces` are its parts in text order, several where
    columns interleave or something stands between; `score` is the share of the passage's letters and digits found.
    """
    return TextIndex(noisy_text).locate(gold_text, min_score=min_score)


class TextIndex:
    """A noisy text prepared for many look-ups. A text of 400,000 characters takes about 0.1 s and 15 MB."""

    def __init__(self, noisy_text: str) -> None:
        self.text = noisy_text
        self._stream = Stream.of(noisy_text)
        self._grams = GramIndex(self._stream.codes, SEED)
        source = np.frombuffer(noisy_text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        offsets, size = self._stream.offsets, len(self._stream)
        breaks: Ints = np.searchsorted(offsets, np.flatnonzero(source == 10))
        words: Ints = np.flatnonzero(np.diff(offsets) > 1) + 1
        self._lines: Ints = np.unique(np.concatenate(([0], breaks, [size])))
        bounds = frozenset(self._lines.tolist())
        self._target = Target(self._stream.letters, bounds, bounds | frozenset(words.tolist()))

    def locate(self, gold_text: str, *, min_score: float = MIN_SCORE) -> list[Span]:
        """As `locate`, in this text."""
        gold = Stream.of(gold_text)
        if len(gold) == 0:
            return []
        if len(gold) < SHORT:
            found = self._exact(gold)
        else:
            found = self._chains(gold, min_score) or self._exact(gold)  # text that repeats itself seeds no chain
        spans = [self._span(blocks, gold, gold_text) for blocks in found]
        return sorted((s for s in spans if s.score >= min_score), key=lambda s: (-s.score, s.start))

    def _exact(self, gold: Stream) -> list[list[Block]]:
        """A short passage, letter by letter, beginning and ending at word bounds where the text has them."""
        found: list[list[Block]] = []
        at = self._stream.letters.find(gold.letters)
        while at >= 0 and len(found) < MAX_SPANS:
            if self._bounded(at, at + len(gold)):
                found.append([Block(0, at, len(gold))])
            at = self._stream.letters.find(gold.letters, at + 1)
        return found

    def _bounded(self, start: int, end: int) -> bool:
        """Neither end lies inside a word: "art" is not found in "party"."""
        offsets = self._stream.offsets
        inside_left = start > 0 and offsets[start] - offsets[start - 1] <= 1
        inside_right = end < len(offsets) and offsets[end] - offsets[end - 1] <= 1
        return not (inside_left or inside_right)

    def _chains(self, gold: Stream, min_score: float) -> list[list[Block]]:
        runs = self._grams.common_runs(gold.codes, max_places=300)
        long = runs[:, 2] >= min(CORE_RUN, max(SEED, len(gold) // 5))
        core, short = runs[long], runs[~long]
        found: list[list[Block]] = []
        for part in _regions(core):
            while len(found) < MAX_SPANS and _covered(part) >= 0.5 * min_score * len(gold):
                chain = best_chain(part, self._lines)
                chain = best_chain(np.concatenate((chain, short[_beside(chain, short)])), self._lines)
                blocks = fill_gaps(chain.tolist(), gold.letters, self._target)
                if sum(b.length for b in blocks) < min_score * len(gold):
                    break
                found.append(blocks)
                part, short = _without(part, blocks), _without(short, blocks)
        return found

    def _span(self, blocks: list[Block], gold: Stream, gold_text: str) -> Span:
        offsets, text = self._stream.offsets, self.text
        score = sum(b.length for b in blocks) / len(gold)
        pieces: list[tuple[int, int]] = []
        for start, end in _pieces(blocks):
            first, last = int(offsets[start]), int(offsets[end - 1]) + 1
            pieces.append((first, _through_marks(text, last)))
        head = gold_text[: int(gold.offsets[0])]
        tail = gold_text[int(gold.offsets[-1]) + 1 :]
        if blocks[0].g == 0:
            start = int(offsets[blocks[0].n])
            pieces = [(_back_over(text, a, head) if a == start else a, b) for a, b in pieces]
        if blocks[-1].g + blocks[-1].length == len(gold):
            end = int(offsets[blocks[-1].n + blocks[-1].length - 1]) + 1
            through = _through_marks(text, end)
            pieces = [(a, _on_over(text, end, tail) if b == through else b) for a, b in pieces]
        return Span(min(a for a, _ in pieces), max(b for _, b in pieces), min(score, 1.0), tuple(pieces))


def _beside(chain: Ints, runs: Ints) -> NDArray[np.bool_]:
    """[M] bool: runs that lie close, in the text, to the chain's run before or after them in the passage."""
    ends = chain[:, 0] + chain[:, 2]
    after = np.searchsorted(chain[:, 0], runs[:, 0], side="right")
    left, right = np.maximum(after - 1, 0), np.minimum(after, len(chain) - 1)
    from_left = np.abs(runs[:, 1] - (chain[left, 1] + chain[left, 2]))
    to_right = np.abs(chain[right, 1] - (runs[:, 1] + runs[:, 2]))
    new = (runs[:, 0] + runs[:, 2] > ends[left]) | (after == 0)
    return new & (np.minimum(from_left, to_right) <= REACH)


def _regions(runs: Ints) -> list[Ints]:
    """Split runs, ordered by place, where the text between is longer than any jump."""
    cuts = np.flatnonzero(np.diff(runs[:, 1]) > MAX_JUMP) + 1
    return [part for part in np.split(runs, cuts) if len(part)]


def _covered(runs: Ints) -> int:
    """Passage letters that lie in any run."""
    if len(runs) == 0:
        return 0
    by_start = runs[np.argsort(runs[:, 0], kind="stable")]
    ends = np.maximum.accumulate(by_start[:, 0] + by_start[:, 2])
    starts = np.maximum(by_start[:, 0], np.concatenate(([0], ends[:-1])))
    return int(np.maximum(ends - starts, 0).sum())


def _without(runs: Ints, blocks: list[Block]) -> Ints:
    """Runs of which less than half lies in text that `blocks` use."""
    used: Ints = np.zeros(len(runs), dtype=np.int64)
    for block in blocks:
        low = np.maximum(runs[:, 1], block.n)
        high = np.minimum(runs[:, 1] + runs[:, 2], block.n + block.length)
        used += np.maximum(high - low, 0)
    return runs[used * 2 < runs[:, 2]]


def _pieces(blocks: list[Block]) -> list[tuple[int, int]]:
    """Stretches of text letters, in text order, that hold the blocks with no more than noise between."""
    joined: list[list[int]] = []
    last_g = 0
    for g, n, length in blocks:
        gap_n = n - joined[-1][1] if joined else -1
        if joined and 0 <= gap_n <= 2 * (g - last_g) + 3:
            joined[-1][1] = n + length
        else:
            joined.append([n, n + length])
        last_g = g + length
    joined.sort()
    merged: list[list[int]] = []
    for start, end in joined:
        if merged and start < merged[-1][1]:
            merged[-1][1] = max(end, merged[-1][1])
        else:
            merged.append([start, end])
    return [(start, end) for start, end in merged]


def _through_marks(text: str, end: int) -> int:
    """`end` moved over the punctuation that is set close to the piece's last letter."""
    while end < len(text) and text[end] in ".,;:!?)]}%-\u2010\u2011\u00ad'\"\u2019\u201d":
        end += 1
    return end


def _on_over(text: str, end: int, marks: str) -> int:
    """`end` moved over `marks` (the passage's last punctuation), as far as the text has them; spaces do not count."""
    return end + _same_marks(text[end : end + 2 * len(marks) + 2], marks)


def _back_over(text: str, start: int, marks: str) -> int:
    """`start` moved back over `marks` (the passage's first punctuation), as far as the text has them."""
    before = text[max(0, start - 2 * len(marks) - 2) : start]
    return start - _same_marks(before[::-1], marks[::-1])


def _same_marks(text: str, marks: str) -> int:
    """Length of the part of `text` that equals `marks`, spaces aside, up to the last equal mark."""
    wanted = [m for m in marks if not m.isspace()]
    reached = matched = 0
    for at, char in enumerate(text):
        if matched == len(wanted) or not (char.isspace() or char == wanted[matched]):
            break
        if not char.isspace():
            matched += 1
            reached = at + 1
    return reached
