"""Where a phrase is in noisy papers: literally first, then its words near each other, then stems, then look-alike words.

Standard library only: this runs inside the sandbox.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import log

from rlm_core.papers.textindex import TextIndex, tokens_of

_STOP_TEXT = """
a an and are as at be been but by can could did do does for from had has have how if in into is it its may more most no
not of on or our such than that the their them then there these they this those through to under use used using via was
we were what when where which while who whose why will with within would
"""
STOP_WORDS = frozenset(_STOP_TEXT.split())
_SUFFIXES = re.compile(
    r"(?:izations?|isations?|ations?|ements?|ments?|ness(?:es)?|ities|ity|ings?|ives?|ers?|ors?|ions?|ies|ed|es|s|ly|al|ic|e|y)$"
)


@dataclass(frozen=True, slots=True)
class Hit:
    """A place in a paper, offsets in its text; `score` compares hits of one search only."""

    paper: str
    start: int
    end: int
    score: float


@dataclass(frozen=True, slots=True)
class Found:
    hits: list[Hit]
    how: str
    """`literal`, `near` (all words close together), `partial` (some words or stems), `alike` (look-alike words) or `none`."""


def stem(word: str) -> str:
    """The word without its ending, at least 4 letters of it."""
    cut = _SUFFIXES.sub("", word)
    return cut if len(cut) >= 4 else word


def key_words(phrase: str) -> list[str]:
    """The distinct folded words that carry meaning; all words if none does."""
    words = list(dict.fromkeys(token for _, token in tokens_of(phrase)))
    return [w for w in words if w not in STOP_WORDS and len(w) > 1] or words


def find_phrase(phrase: str, indexes: Mapping[str, TextIndex], span: int, alike: Callable[[str], list[str]]) -> Found:
    """All hits of `phrase` by the first way that finds any.

    `span` is how far apart (squeezed characters) words may be that belong together; `alike` gives look-alikes of a word.
    """
    if hits := literal(phrase, indexes):
        return Found(hits, "literal")
    words = key_words(phrase)
    forms = [[w] for w in words]
    if len(words) > 1 and (hits := near(forms, indexes, span, needed=1.0)):
        return Found(hits, "near")
    forms = [list(dict.fromkeys((w, stem(w)))) for w in words]
    if hits := near(forms, indexes, span, needed=0.5):
        return Found(hits, "partial")
    forms = [[*own, *alike(word)] for word, own in zip(words, forms, strict=True)]
    if hits := near(forms, indexes, span, needed=0.5):
        return Found(hits, "alike")
    return Found([], "none")


def literal(phrase: str, indexes: Mapping[str, TextIndex]) -> list[Hit]:
    """Occurrences of the phrase's letters and digits, whatever lies between them; whole words score higher."""
    needle = "".join(token for _, token in tokens_of(phrase))
    hits = []
    for paper, index in indexes.items():
        for position in index.find(needle, limit=80):
            end = position + len(needle)
            whole = index.starts_word(position) + 0.5 * index.ends_word(end)
            hits.append(Hit(paper, *index.original(position, end), 1.0 + whole))
    return hits


def near(forms: list[list[str]], indexes: Mapping[str, TextIndex], span: int, *, needed: float) -> list[Hit]:
    """Places where words stand within `span` of each other, best first and not overlapping.

    `forms` holds the accepted forms of each word, exact one first. A rare word weighs more (log of inverse frequency);
    a place counts when its words carry at least `needed` of the weight of all.
    """
    places: dict[
        str, list[tuple[int, int, int, float]]
    ] = {}  # paper -> (position, end, word, share of the word's weight)
    counts: Counter[int] = Counter()
    for paper, index in indexes.items():
        rows: dict[tuple[int, int], tuple[int, int, int, float]] = {}
        for number, own in enumerate(forms):
            for rank, form in enumerate(own):
                for position in index.find(form):
                    rows.setdefault(
                        (position, number), (position, position + len(form), number, 1.0 if rank == 0 else 0.8)
                    )
        counts.update(row[2] for row in rows.values())
        places[paper] = sorted(rows.values())
    total = sum(len(index.words) for index in indexes.values()) + 1
    weights = [log(1 + total / (1 + counts[number])) for number in range(len(forms))]
    everything = sum(weights)
    hits: list[Hit] = []
    for paper, placed in places.items():
        hits += _windows(paper, indexes[paper], placed, weights, span, needed * everything - 1e-9)
    return sorted(hits, key=lambda hit: -hit.score)


def _windows(
    paper: str,
    index: TextIndex,
    rows: list[tuple[int, int, int, float]],
    weights: list[float],
    span: int,
    needed: float,
) -> list[Hit]:
    candidates: list[tuple[float, int, int]] = []
    for first, (start, _, _, _) in enumerate(rows):
        best: dict[int, float] = {}
        score, end = 0.0, start
        for position, stop, number, share in rows[first : first + 200]:
            if position - start > span:
                break
            gain = weights[number] * share - best.get(number, 0.0)
            if gain > 0:
                best[number] = weights[number] * share
                score, end = score + gain, max(end, stop)
        if score >= needed * 0.8 and score > 0:
            candidates.append((score * (1.0 - 0.3 * min(1.0, (end - start) / (2 * span))), start, end))
    taken: list[tuple[int, int]] = []
    hits = []
    for score, start, end in sorted(candidates, key=lambda c: (-c[0], c[1])):
        if all(end <= low or start >= high for low, high in taken):
            taken.append((start, end))
            hits.append(Hit(paper, *index.original(start, end), score))
            if len(hits) >= 40:
                break
    return hits


class Vocabulary:
    """Look-alike words by shared letter triples, over all papers."""

    def __init__(self, indexes: Iterable[TextIndex]) -> None:
        self._triples: dict[str, list[str]] = defaultdict(list)
        for word in sorted({word for index in indexes for word in index.words if len(word) > 3}):
            for triple in set(_triples(word)):
                self._triples[triple].append(word)

    def alike(self, word: str, *, limit: int = 4, similarity: float = 0.5) -> list[str]:
        """Words whose letter triples overlap with those of `word` (Dice coefficient), most alike first."""
        own = set(_triples(word))
        shared = Counter(other for triple in own for other in self._triples.get(triple, ()))
        scored = [
            (2 * count / (len(own) + len(set(_triples(other)))), other) for other, count in shared.most_common(50)
        ]
        return [other for score, other in sorted(scored, reverse=True) if score >= similarity and other != word][:limit]


def _triples(word: str) -> list[str]:
    padded = f" {word} "
    return [padded[i : i + 3] for i in range(len(padded) - 2)]
