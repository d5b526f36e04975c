"""How true a reading of a PDF is to its publisher's text: each measure is a pure function of the two.

Words are runs of letters and digits, case folded, ligatures written out (NFKC); letters are the same without what parts them.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rapidfuzz import fuzz
from rapidfuzz.distance import Levenshtein

from benchmarks.publishers import Truth
from rlm_core.papers import Paper
from rlm_core.synthesis import TextIndex

MIN_LETTERS = 100
"""Of a paragraph whose letters are compared; shorter ones are labels and lone formulas as often as prose."""
MIN_SENTENCE = 40
"""Letters of a sentence whose place is looked up; shorter ones may stand in several places."""


@dataclass(frozen=True, slots=True)
class Fidelity:
    """Measures of one paper read in one way. None: not measured, for its source or its reading has no such part."""

    word_recall: float
    """Share of the true words (title, abstract, headings, prose) that the reading holds, each as often as it is true."""
    word_precision: float
    """Share of the words read that the source holds anywhere; in MyST and LaTeX it lacks references and authors."""
    body_precision: float | None
    """The same of paragraphs of kind `body` against true prose: captions and cells that leak into it lower it."""
    paragraphs_found: float
    """Share of true paragraphs that can be located in the text."""
    char_error: float | None
    """Edit distance over letters, of located complete paragraphs, to what stands at their place."""
    paragraphs_whole: float | None
    """Share of true paragraphs that one paragraph read spells with a similarity of 0.9 or more."""
    order_tau: float | None
    """Kendall's tau between the true and the read order of the sentences that were found; 1.0 is the true order."""
    section_recall: float
    section_precision: float
    """Of the headings read before the references; 1.0 where none was read."""
    abstract_recall: float | None
    """Share of the true abstract's words."""
    abstract_precision: float | None
    title: bool
    """Similarity to the true one of 0.9 or more."""


def compare(paper: Paper, truth: Truth) -> Fidelity:
    index = TextIndex(paper.text)
    prose = " ".join(p.text for p in truth.paragraphs)
    wanted = words(" ".join((truth.title, truth.abstract, *truth.sections, prose)))
    read = words(paper.text)
    body = [p.text for p in paper.paragraphs if p.kind == "body"]
    gold = [p for p in truth.paragraphs if len(letters(p.text)) >= MIN_LETTERS]
    places = [index.locate(p.text) for p in gold]
    errors = [
        _edit_share(p.text, "".join(paper.text[a:b] for a, b in spans[0].pieces))
        for p, spans in zip(gold, places, strict=True)
        if p.complete and spans
    ]
    weights = [len(letters(p.text)) for p, spans in zip(gold, places, strict=True) if p.complete and spans]
    recall, precision = headings(truth.sections, [s.title for s in paper.sections])
    has_abstract = bool(truth.abstract)
    return Fidelity(
        word_recall=covered(wanted, read),
        word_precision=covered(read, words(truth.text) | wanted),
        body_precision=covered(words(" ".join(body)), wanted) if body else None,
        paragraphs_found=sum(map(bool, places)) / max(1, len(gold)),
        char_error=sum(e * w for e, w in zip(errors, weights, strict=True)) / sum(weights) if weights else None,
        paragraphs_whole=whole([p.text for p in gold], body) if body else None,
        order_tau=order(index, [p.text for p in truth.paragraphs]),
        section_recall=recall,
        section_precision=precision,
        abstract_recall=covered(words(truth.abstract), words(paper.abstract)) if has_abstract else None,
        abstract_precision=covered(words(paper.abstract), words(truth.abstract))
        if has_abstract and paper.abstract
        else None,
        title=fuzz.ratio(letters(truth.title), letters(paper.title)) >= 90,
    )


def words(text: str) -> Counter[str]:
    return Counter(re.findall(r"[^\W_]+", unicodedata.normalize("NFKC", text).casefold()))


def letters(text: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFKC", text).casefold() if c.isalnum())


def covered(wanted: Counter[str], there: Counter[str]) -> float:
    """Share of the words of `wanted`, counted as often as they stand in it, that `there` has; 1.0 for no words."""
    return (wanted & there).total() / wanted.total() if wanted else 1.0


def _edit_share(true: str, read: str) -> float:
    """Edit distance over the number of true letters, at most 1.0."""
    gold = letters(true)
    return min(1.0, Levenshtein.distance(gold, letters(read)) / len(gold))


def whole(gold: Sequence[str], read: Sequence[str]) -> float:
    candidates = [letters(text) for text in read]
    found = sum(any(fuzz.ratio(letters(g), c, score_cutoff=90) for c in candidates) for g in gold)
    return found / max(1, len(gold))


def order(index: TextIndex, paragraphs: Iterable[str]) -> float | None:
    """Kendall's tau (tau-b) over the places of sentences that stand exactly once in the text."""
    from scipy.stats import kendalltau

    starts = []
    for paragraph in paragraphs:
        for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z])", paragraph):
            if len(letters(sentence)) >= MIN_SENTENCE and len(spans := index.locate(sentence)) == 1:
                starts.append(spans[0].start)
    return float(kendalltau(range(len(starts)), starts).statistic) if len(starts) >= 2 else None


_UNLISTED = frozenset(
    {"abstract", "references", "acknowledgements", "acknowledgments", "bibliography", "literaturecited"}
)
"""Headings that sources keep elsewhere than among their sections, if at all."""


def headings(true: Sequence[str], read: Sequence[str]) -> tuple[float, float]:
    """Recall and precision of section titles; numbers before them do not count, and 1 letter in 10 may differ."""
    gold, found = ([_bare(title) for title in titles if _bare(title)] for titles in (true, read))
    end = next((n for n, title in enumerate(found) if title in ("references", "bibliography", "literaturecited")), None)
    before = [title for title in found[:end] if title not in _UNLISTED]
    recall = sum(any(_alike(g, f) for f in found) for g in gold) / len(gold) if gold else 1.0
    precision = sum(any(_alike(g, f) for g in gold) for f in before) / len(before) if before else 1.0
    return recall, precision


def _bare(title: str) -> str:
    return letters(re.sub(r"^\s*(?:\d+(?:\.\d+)*\.?|[IVX]+\.|[A-H]\.)\s*(?=\D)", "", title))


def _alike(a: str, b: str) -> bool:
    return fuzz.ratio(a, b) >= 90
