"""What several papers of a group treat, and the passages that do: the matter of multi-paper questions.

A topic is a key phrase, or two that stand in the same passages. One phrase alone is often mentioned too widely to say
which passages are about it; two together single out one or two passages in each of several papers. In a large group a
question is not asked of the papers where that is unclear.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from rlm_core.synthesis.passages import Passage
from rlm_core.synthesis.phrases import Phrase, Weights
from rlm_core.synthesis.words import squeeze

MAX_PER_PAPER = 2
"""Evidence passages of one paper;"""
MAX_PER_PAPER_WIDE = 3
"""of a topic in five papers or more."""
PAIR_PAPERS = 3
"""Papers that a topic of two phrases needs, and one that leaves papers out: with two, one phrase is enough."""
WIDE = 5
"""Papers that a question may read at least when unclear ones are left out."""
MAX_USES = 6
"""Passages that may mention a phrase in a paper that such a question reads: in more it is the paper's subject."""
MIN_WORD = 9
"""Letters that a phrase of one word needs to be half of a pair,"""
MAX_SHARE = 1 / 3
"""and the share of the library's papers that may use its word: "significant" tells nothing apart."""

Papers = Mapping[str, Sequence[Passage]]


@dataclass(frozen=True, slots=True)
class Topic:
    phrase: Phrase
    cue: Phrase | None
    evidence: tuple[Passage, ...]
    weight: float
    left_out: frozenset[str] = frozenset()
    """Papers that the question must not be asked of: it is unclear which of their passages answer it."""

    @property
    def num_papers(self) -> int:
        return len({p.paper_id for p in self.evidence})


def shared_topics(papers: Papers, weights: Weights, rejected: Counter[str]) -> list[Topic]:
    """All topics of two or more papers whose evidence is clear, most telling first; `rejected` counts why others are not."""
    mentions = _mentions(papers)
    found: list[Topic] = []
    for phrase, places in mentions:
        if len(phrase.words) >= 2:
            about = [p for _, uses in _by_paper(places) for p in _about(phrase, uses)]
            evidence, left_out, reason = _clear(about, places, len(papers))
            if reason:
                rejected[reason] += 1
            elif len({p.paper_id for p in evidence}) >= 2:
                found.append(Topic(phrase, None, evidence, weights.of(phrase), left_out))
    found += _pairs(mentions, weights, rejected, len(papers))
    return sorted(found, key=lambda t: (-t.weight, t.phrase.key, t.cue.key if t.cue else ""))


def _pairs(
    mentions: Sequence[tuple[Phrase, list[Passage]]], weights: Weights, rejected: Counter[str], num_papers: int
) -> Iterator[Topic]:
    """Two phrases, at least one of several words, and every passage that mentions both."""
    wide = [
        (phrase, places)
        for phrase, places in mentions
        if len({p.paper_id for p in places}) >= PAIR_PAPERS
        and (len(phrase.words) >= 2 or weights.share(phrase) <= MAX_SHARE)
    ]
    sets = [(phrase, {(p.paper_id, p.number): p for p in places}) for phrase, places in wide]
    for (first, at_first), (second, at_second) in combinations(sets, 2):
        if max(len(first.words), len(second.words)) < 2 or not _unlike(first, second):
            continue
        both = [at_first[place] for place in at_first if place in at_second]
        if len({p.paper_id for p in both}) < PAIR_PAPERS:
            continue
        evidence, left_out, reason = _clear(both, both, num_papers)
        if reason:
            rejected[reason] += 1
            continue
        phrase, cue = sorted((first, second), key=lambda p: (-len(p.words), -weights.of(p), p.key))
        yield Topic(phrase, cue, evidence, weights.of(phrase) + weights.of(cue), left_out)


def _mentions(papers: Papers) -> list[tuple[Phrase, list[Passage]]]:
    """Each phrase that passages fit to be evidence use and at least two papers mention, with all its passages.

    Of several spellings the commonest stands for all: OCR may have broken a word in one of them.
    """
    spellings: dict[str, list[Phrase]] = defaultdict(list)
    for passages in papers.values():
        for passage in passages:
            for phrase in passage.phrases if passage.can_be_evidence else ():
                if len(phrase.words) >= 2 or len(squeeze(phrase.text)) >= MIN_WORD:
                    spellings[phrase.key].append(phrase)
    whole = {paper: "\n".join(p.stem_string for p in passages) for paper, passages in papers.items()}
    found = []
    for key, phrases in spellings.items():
        holders = [paper for paper, text in whole.items() if key in text]
        if len(holders) >= 2:
            common = Counter(p.text for p in phrases).most_common(1)[0][0]
            phrase = next(p for p in phrases if p.text == common)
            found.append((phrase, [p for paper in papers for p in papers[paper] if p.mentions(phrase)]))
    return found


def _by_paper(places: Sequence[Passage]) -> list[tuple[str, list[Passage]]]:
    by_paper: dict[str, list[Passage]] = defaultdict(list)
    for passage in places:
        by_paper[passage.paper_id].append(passage)
    return list(by_paper.items())


def _about(phrase: Phrase, places: Sequence[Passage]) -> list[Passage]:
    """Those of a paper's passages that use the phrase more than half as often as any of them."""
    uses = [max(1, p.stem_string.count(phrase.key), p.letters.count(squeeze(phrase.text))) for p in places]
    return [p for count, p in zip(uses, places, strict=True) if 2 * count > max(uses)]


def _clear(
    about: Sequence[Passage], mentions: Sequence[Passage], num_papers: int
) -> tuple[tuple[Passage, ...], frozenset[str], str]:
    """The evidence, the papers left out, and why there can be no question (then without evidence)."""
    reason = _unclear(about)
    if not reason:
        return tuple(about), frozenset(), ""
    uses = Counter(p.paper_id for p in mentions)
    left_out = {paper for paper, passages in _by_paper(about) if uses[paper] > MAX_USES or _unclear(passages)}
    kept = tuple(p for p in about if p.paper_id not in left_out)
    if num_papers - len(left_out) < WIDE or len({p.paper_id for p in kept}) < PAIR_PAPERS:
        return (), frozenset(), reason
    return kept, frozenset(left_out), ""


def _unclear(evidence: Sequence[Passage]) -> str:
    """Why these passages cannot be a question's evidence; empty when they can."""
    passages = Counter(p.paper_id for p in evidence)
    if max(passages.values(), default=0) > (MAX_PER_PAPER_WIDE if len(passages) >= 5 else MAX_PER_PAPER):
        return "phrase in too many passages"
    if any(not p.can_be_evidence for p in evidence):
        return "phrase in an abstract, caption or unfit paragraph"
    return ""


def _unlike(first: Phrase, second: Phrase) -> bool:
    """Neither phrase holds a word of the other."""
    return not set(first.words) & set(second.words) and first.key not in second.key and second.key not in first.key
