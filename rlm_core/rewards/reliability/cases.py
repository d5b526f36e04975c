"""The labelled set of a judge's check: answers whose precision and recall are known because the project makes them.

From a query's gold evidence come the gold itself (whole, reordered, repeated, with a parser's noise), parts of it, padded
forms, text of other papers, nothing at all, and text that speaks to the judge. A label is `1 + 9 x share`, rounded, where
shares are counted in letters of what was put in: no judge and no alignment takes part in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from rlm_core.files import content_key
from rlm_core.records import Judgement, Query
from rlm_core.rewards.judges import to_scale
from rlm_core.rewards.reliability.wording import FOREIGN, PLEAS, noisy, reworded

VERSION = 2
"""Raised with any change of the cases: checks of another version are not reused."""
MIN_LETTERS = 80
"""Of a query's gold: half of a shorter one is no evidence that a judge could be held to."""
SHINGLE = 6
"""Words that two texts must not share in a row to count as texts about other things."""


@dataclass(frozen=True, slots=True)
class Case:
    """One answer with the scores that it deserves."""

    query_id: str
    kind: str
    question: str
    gold: tuple[str, ...]
    answer: tuple[str, ...]
    precision: int | None
    """1..10; None for a kind that is reported and not counted (`paraphrase`)."""
    recall: int | None


@dataclass(frozen=True, slots=True)
class Answered:
    """A case and the verdict of each repetition, in order; None where the judge failed."""

    case: Case
    verdicts: tuple[Judgement | None, ...]

    @property
    def first(self) -> Judgement | None:
        return next((v for v in self.verdicts if v is not None), None)


def usable(queries: Sequence[Query]) -> list[Query]:
    """Queries with enough gold to take apart."""
    return [query for query in queries if sum(map(letters, query.gold)) >= MIN_LETTERS]


def make_cases(queries: Sequence[Query], *, count: int = 12, seed: int = 0) -> list[Case]:
    """The cases of `count` queries, drawn by a hash of seed and id; raises `ValueError` when none is usable."""
    ordered = sorted(usable(queries), key=lambda query: content_key(seed, query.id))
    if not ordered:
        raise ValueError(
            f"none of {len(queries)} queries has gold evidence of {MIN_LETTERS} letters or more: nothing to check a judge by"
        )
    return [case for query in ordered[:count] for case in _cases_of(query, ordered, seed)]


def _cases_of(query: Query, others: Sequence[Query], seed: int) -> Iterator[Case]:
    rng = Random(f"{seed} {query.id}")
    gold = tuple(query.gold)
    total = sum(map(letters, gold))
    other = foreign_text(query, others)
    half, third = part_of(gold, 0.5), part_of(gold, 1 / 3)

    def case(kind: str, kept: Sequence[str], padding: Sequence[str] = (), *, counted: bool = True) -> Case:
        held = sum(map(letters, kept))
        size = held + sum(map(letters, padding))
        precision = to_scale(held / size) if size else 1
        recall = to_scale(min(1.0, held / total))
        labels = (precision, recall) if counted else (None, None)
        return Case(query.id, kind, query.question, gold, (*kept, *padding), *labels)

    def same(kind: str, answer: Sequence[str]) -> Case:
        return Case(query.id, kind, query.question, gold, tuple(answer), 10, 10)

    yield case("gold", gold)
    sentences = [s for passage in gold for s in _sentences(passage)]
    if len(sentences) > 1:
        yield same("reordered", sentences[::-1])
    yield same("repeated", gold * 3)
    yield same("noisy", [noisy(passage, rng) for passage in gold])
    yield case("half", half)
    yield case("third", third)
    yield case("padded", gold, _cut(other, total))
    yield case("padded_long", gold, _cut(other, 3 * total))
    yield case("half_padded", half, _cut(other, sum(map(letters, half))))
    yield case("wrong_paper", (), _cut(other, total))
    yield case("empty", ())
    yield case("paraphrase", [reworded(passage) for passage in gold], counted=False)
    for name, plea in PLEAS.items():
        yield case(f"injection_{name}", (), (*_cut(other, total), plea))
    yield case("injection_half", half, (PLEAS["plea"],))


def letters(text: str) -> int:
    """Letters and digits."""
    return sum(c.isalnum() for c in text)


def part_of(passages: Sequence[str], share: float) -> tuple[str, ...]:
    """The first words of the passages, up to about `share` of their letters."""
    return _cut(passages, round(share * sum(map(letters, passages))))


def _cut(passages: Sequence[str], size: int) -> tuple[str, ...]:
    """The passages up to the first word end at which they hold `size` letters, or all of them."""
    kept: list[str] = []
    for passage in passages:
        if size <= 0:
            break
        words = []
        for word in passage.split(" "):
            words.append(word)
            size -= letters(word)
            if size <= 0:
                break
        kept.append(" ".join(words))
    return tuple(kept)


def foreign_text(query: Query, others: Sequence[Query]) -> tuple[str, ...]:
    """Gold of queries about other papers that shares no six words in a row with this one's, then a text of our own."""
    papers = {e.paper_id for e in query.evidence} | set(query.paper_ids)
    own = _shingles(query.gold)
    found = [
        text
        for other in others
        if not papers & ({e.paper_id for e in other.evidence} | set(other.paper_ids))
        for text in other.gold
        if not own & _shingles([text])
    ]
    return tuple(dict.fromkeys((*found, *FOREIGN)))


def _shingles(texts: Sequence[str]) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", " ".join(texts).lower())
    return {tuple(words[i : i + SHINGLE]) for i in range(max(1, len(words) - SHINGLE + 1))}


def _sentences(text: str) -> list[str]:
    return [part for part in re.split(r"(?<=[.!?])\s+", text.strip()) if letters(part)]
