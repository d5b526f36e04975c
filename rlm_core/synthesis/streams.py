"""A text as its stream of letters and digits, each with the place it came from, and exact common runs of two streams.

Line ends, lost or doubled spaces, hyphenation, ligatures, accents, case and punctuation vanish in the stream, so that
the same passage reads the same in OCR text and in parser text. Offsets lead back into the text as it was.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]

_GLYPH_NUMBER = re.compile(r"\(cid:\d+\)")
"""How pdfminer prints a glyph whose font names no character: noise, though made of letters."""


@dataclass(frozen=True, slots=True)
class Stream:
    """`Stream.of("eﬃ-\\ncient")`: letters "efficient", offsets 0 1 1 1 4 5 6 7 8."""

    letters: str
    codes: Ints
    """[N] code points of `letters`."""
    offsets: Ints
    """[N] index in the source text of each letter."""

    @classmethod
    def of(cls, text: str) -> Stream:
        source = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32).astype(np.int64)
        if "(cid:" in text:
            for glyph in _GLYPH_NUMBER.finditer(text):
                source[glyph.start() : glyph.end()] = 32
        present = np.flatnonzero(np.bincount(source)) if len(source) else source
        folded = [_fold(int(code)) for code in present]
        width = int(present[-1]) + 1 if len(present) else 0
        first: Ints = np.zeros(width, dtype=np.int64)
        count: Ints = np.zeros(width, dtype=np.int64)
        first[present] = [ord(f[0]) if f else 0 for f in folded]
        count[present] = [len(f) for f in folded]
        offsets: Ints = np.repeat(np.arange(len(source), dtype=np.int64), count[source])
        codes = first[source[offsets]]
        for code, letters in zip(present.tolist(), folded, strict=True):
            if len(letters) > 1:
                places = np.flatnonzero(source == code)
                starts = np.searchsorted(offsets, places)
                for shift, letter in enumerate(letters):
                    codes[starts + shift] = ord(letter)
        letters = codes.astype(np.uint32).tobytes().decode("utf-32-le", "surrogatepass")
        return cls(letters, codes, offsets)

    def __len__(self) -> int:
        return len(self.letters)


@functools.lru_cache(maxsize=4096)
def _fold(code: int) -> str:
    """Compatibility-decomposed, case-folded letters and digits of one character; empty for all else."""
    decomposed = unicodedata.normalize("NFKD", chr(code)).casefold()
    return "".join(c for c in decomposed if c.isalnum())


def gram_hashes(codes: Ints, size: int) -> NDArray[np.uint64]:
    """[N - size + 1] polynomial hashes, modulo 2^64, of all runs of `size` letters; empty when N < size."""
    count = len(codes) - size + 1
    if count <= 0:
        return np.empty(0, dtype=np.uint64)
    letters = codes.astype(np.uint64)
    hashes = letters[:count].copy()
    for shift in range(1, size):
        hashes *= np.uint64(0x9E3779B97F4A7C15)
        hashes += letters[shift : shift + count]
    return hashes


class GramIndex:
    """Where each run of `size` letters of a stream lies, for many look-ups."""

    def __init__(self, codes: Ints, size: int) -> None:
        self.size = size
        hashes = gram_hashes(codes, size)
        self._order = np.argsort(hashes, kind="stable")
        self._sorted = hashes[self._order]

    def common_runs(self, codes: Ints, *, max_places: int) -> Ints:
        """[M, 3] maximal common runs (start in `codes`, start in the indexed stream, length), by the latter's start.

        Runs of letters found at more than `max_places` places start nothing: they tell nothing about the place. Nor do
        those with more than 20 x `max_places` pairs of places, which bounds the work on text that repeats itself.
        """
        wanted = gram_hashes(codes, self.size)
        _, gram, count = np.unique(wanted, return_inverse=True, return_counts=True)
        low = np.searchsorted(self._sorted, wanted, side="left")
        places = np.searchsorted(self._sorted, wanted, side="right") - low
        places[(places > max_places) | (places * count[gram] > 20 * max_places)] = 0
        total = int(places.sum())
        if total == 0:
            return np.empty((0, 3), dtype=np.int64)
        mine: Ints = np.repeat(np.arange(len(wanted), dtype=np.int64), places)
        within = np.arange(total, dtype=np.int64) - np.repeat(np.cumsum(places) - places, places)
        theirs = self._order[np.repeat(low, places) + within].astype(np.int64)
        return merge_diagonals(mine, theirs, self.size)


def merge_diagonals(mine: Ints, theirs: Ints, size: int) -> Ints:
    """[M, 3] runs (start, start, length) from the pairs of equal grams, ordered by the second start."""
    by_diagonal = np.lexsort((theirs, theirs - mine))
    mine, theirs = mine[by_diagonal], theirs[by_diagonal]
    diagonal = theirs - mine
    breaks = np.flatnonzero((np.diff(diagonal) != 0) | (np.diff(theirs) != 1)) + 1
    starts = np.concatenate(([0], breaks))
    ends = np.concatenate((breaks, [len(mine)]))
    runs = np.stack((mine[starts], theirs[starts], ends - starts + size - 1), axis=1)
    return runs[np.argsort(runs[:, 1], kind="stable")]
