"""The passages of a paper that a question may ask for, and those that compete with them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rlm_core.synthesis.phrases import Phrase, key_of, own_capitals, phrases_of
from rlm_core.synthesis.words import STOP, content_stems, squeeze

if TYPE_CHECKING:
    from rlm_core.papers.records import Paper

MIN_CHARS = 150
MAX_CHARS = 900
BEST_CHARS = (200, 700)
"""A small reader sees a few hundred tokens at once; evidence of this length fits."""

PART_CHARS = 700
"""Aimed at when a longer paragraph is cut."""
_SENTENCE_END = re.compile(
    r"(?<![A-Z]\.)(?<!\b(?:al|vs|ca|cf|eq|et)\.)(?<!\b(?:Fig|Eqs|Ref|Sec|Tab|e\.g|i\.e)\.)(?<=[.!?])\s+(?=[A-Z(\[“\"])"
)
"""White space after a sentence; not after an initial or a common abbreviation."""

MIN_STOP = 0.15
"""Of the words of prose, those that are stop words; the cells of a table read as text have hardly any."""

SILENT = frozenset({"title", "front", "heading", "reference", "other", "footnote"})
"""Kinds of paragraphs that neither answer a question nor compete for it."""

_BACK_MATTER = re.compile(
    r"(?i)acknowledg|funding|author contribution|conflicts? of interest|competing interest|abbreviation|references"
    r"|bibliography|ethic|data availability|supplementary|about the author"
)
_CREDIT = re.compile(
    r"(?i)supported by .{0,80}\b(?:grant|foundation|fund)\b|authors? (?:declare|thank|acknowledge|are listed|contributed)"
    r"|(?:we|i) (?:would like to )?(?:thank|acknowledge) |acknowledges? support|all rights reserved|corresponding author"
    r"|creative commons|licen[cs]ed under"
)


@dataclass(frozen=True)
class Passage:
    """One paragraph of clean text."""

    paper_id: str
    number: int
    """Among the paper's passages, from 0."""
    text: str
    kind: str = "body"
    page: int = 1
    section: str = ""
    names: frozenset[str] = frozenset()
    """Words, lower case, that its paper writes with a capital wherever they stand."""

    @cached_property
    def can_be_evidence(self) -> bool:
        return (
            self.kind == "body"
            and MIN_CHARS <= len(self.text) <= MAX_CHARS
            and is_prose(self.text)
            and not _BACK_MATTER.search(self.section)
            and not _CREDIT.search(self.text)
        )

    @cached_property
    def phrases(self) -> list[Phrase]:
        return phrases_of(self.text, self.names)

    @cached_property
    def letters(self) -> str:
        return squeeze(self.text)

    @cached_property
    def stems(self) -> list[str]:
        return content_stems(self.text)

    @cached_property
    def stem_string(self) -> str:
        return key_of(self.text)

    def mentions(self, phrase: Phrase) -> bool:
        """The phrase or an inflection of it stands here, whatever OCR did to its spaces."""
        return phrase.key in self.stem_string or squeeze(phrase.text) in self.letters


def passages_of(paper: Paper) -> list[Passage]:
    """A paper's paragraphs, without headings, references and other silent kinds; long body paragraphs in parts."""
    kept = [p for p in paper.paragraphs if p.kind not in SILENT and p.text.strip()]
    parts = [(p, part) for p in kept for part in _parts(" ".join(p.text.split()), p.kind)]
    names = own_capitals(text for _, text in parts)
    return [Passage(paper.id, i, text, p.kind, p.page, p.section, names) for i, (p, text) in enumerate(parts)]


def _parts(text: str, kind: str) -> list[str]:
    """A body paragraph too long to be evidence, cut where sentences end into parts of about equal length."""
    if kind != "body" or len(text) <= MAX_CHARS:
        return [text]
    ends = [m.end() for m in _SENTENCE_END.finditer(text)]
    aim = len(text) / -(-len(text) // PART_CHARS)
    cuts = [0]
    while len(text) - cuts[-1] > MAX_CHARS:
        within = [
            end for end in ends if cuts[-1] + MIN_CHARS <= end <= min(cuts[-1] + MAX_CHARS, len(text) - MIN_CHARS)
        ]
        if not within:
            break
        cuts.append(min(within, key=lambda end: abs(end - cuts[-1] - aim)))
    return [text[low:high].strip() for low, high in zip(cuts, [*cuts[1:], len(text)], strict=True)]


def sentences_of(text: str) -> list[tuple[int, int]]:
    """Half-open ranges of a text's sentences, without the white space between."""
    starts = [0, *(m.end() for m in _SENTENCE_END.finditer(text))]
    return [(a, a + len(text[a:b].rstrip())) for a, b in zip(starts, [*starts[1:], len(text)], strict=True)]


def is_prose(text: str) -> bool:
    """Sentences rather than a table, a formula or a list of names: mostly letters, some stop words, a full stop."""
    letters = sum(c.isalpha() or c.isspace() for c in text)
    words = text.split()
    long = sum(len(w) > 25 for w in words)
    return (
        letters >= 0.8 * len(text)
        and len(words) >= 20
        and sum(w.lower() in STOP for w in words) >= MIN_STOP * len(words)
        and long <= 0.05 * len(words)
        and text.rstrip()[-1] in ".!?)\"”'"
    )


class PaperIndex:
    """Ranks a paper's passages for a question (BM25)."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        import bm25s

        self.passages = passages
        self._known = {s for p in passages for s in p.stems}
        self._ranker: Any = bm25s.BM25()
        self._ranker.index([p.stems for p in passages], show_progress=False, leave_progress=False)

    def scores(self, question: str) -> list[float]:
        """BM25 score of each passage."""
        wanted = [s for s in content_stems(question) if s in self._known]
        if not wanted:
            return [0.0] * len(self.passages)
        return [float(s) for s in self._ranker.get_scores(wanted)]

    def margin(self, question: str, evidence: set[int]) -> float:
        """Lowest score among the evidence over the highest among the rest; above 1, no other passage answers as well."""
        scores = self.scores(question)
        inside = min(scores[i] for i in evidence)
        outside = max((s for i, s in enumerate(scores) if i not in evidence), default=0.0)
        return inside / outside if outside > 0 else (float("inf") if inside > 0 else 0.0)
