"""The extractive writer: questions built around key phrases, without a model.

A single-paper question names a phrase and a second cue that stand together in one paragraph only, which also ranks first
for the question by a clear margin. A multi-paper question names a phrase, and its evidence is the one or two paragraphs of
each paper that are about it. Limits: it asks where something is treated, not why or how much, and its wording is plain.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest

from rlm_core.files import content_key
from rlm_core.records import tier_of
from rlm_core.synthesis import templates
from rlm_core.synthesis.checks import gives_away
from rlm_core.synthesis.drafts import Draft
from rlm_core.synthesis.passages import BEST_CHARS, PaperIndex, Passage
from rlm_core.synthesis.phrases import Phrase, Weights
from rlm_core.synthesis.words import squeeze

MIN_MARGIN = 1.2
"""How far the evidence must outscore every other passage of its paper (BM25, for the question)."""
MAX_MENTIONS = 3
"""Passages of a paper that may mention a single-paper question's phrase; the cue tells them apart."""
PHRASES_TRIED = 8
CUES_TRIED = 6
ROUNDS = 2
"""Questions a paragraph at most."""


class ExtractiveWriter:
    """Deterministic given the library and the seed."""

    name = "extractive"
    version = f"1.{templates.VERSION}"

    def __init__(self, library: Mapping[str, Sequence[Passage]], seed: int) -> None:
        self.rejected: Counter[str] = Counter()
        self._seed = seed
        self._weights = Weights([p.text for p in passages] for passages in library.values())

    @property
    def usage(self) -> dict[str, int]:
        return {}

    def prepare(self, groups: Iterable[Mapping[str, Sequence[Passage]]], singles: int, multis: int) -> None:
        """Nothing to ask in advance."""

    def single(self, passages: Sequence[Passage], wanted: int) -> Iterator[Draft]:
        """Every paragraph's best question, most telling first; then, where that is not enough, its second best."""
        eligible = [p for p in passages if p.can_be_evidence]
        if not eligible or wanted <= 0:
            return
        index = PaperIndex(passages)
        rng = random.Random(content_key(self._seed, "single", eligible[0].paper_id))
        options = {p.number: self._options(p, index, rng) for p in eligible}
        used: set[str] = set()
        for _ in range(ROUNDS):
            best: list[tuple[float, Draft]] = []
            for passage in eligible:
                option = next((o for o in options[passage.number] if o[1].key_phrase not in used), None)
                if option:
                    best.append(option)
            for _, draft in sorted(best, key=lambda o: (-o[0], o[1].evidence[0].number)):
                if draft.key_phrase not in used:
                    used.add(draft.key_phrase)
                    yield draft

    def _options(self, passage: Passage, index: PaperIndex, rng: random.Random) -> Iterator[tuple[float, Draft]]:
        """Questions for one paragraph that hold up, lazily, by how telling their phrase is."""
        ranked = sorted(passage.phrases, key=lambda p: (-self._weights.of(p), p.start))
        fit = 1.0 if BEST_CHARS[0] <= len(passage.text) <= BEST_CHARS[1] else 0.6
        for phrase in ranked[:PHRASES_TRIED]:
            mentions = [p for p in index.passages if p.mentions(phrase)]
            if len(mentions) > MAX_MENTIONS:
                self.rejected["phrase in too many passages"] += 1
                continue
            question, cue, template = self._word(phrase, passage, mentions, ranked, rng)
            if not question:
                self.rejected["no cue tells the passages apart"] += 1
            elif gives_away(question, [passage.text]):
                self.rejected["gives its evidence away"] += 1
            elif index.margin(question, {passage.number}) < MIN_MARGIN:
                self.rejected["another passage answers as well"] += 1
            else:
                details = {"phrase": phrase.text, "cue": cue, "template": template}
                draft = Draft(question, "single", (passage.paper_id,), (passage,), details)
                yield fit * self._weights.of(phrase), draft

    def _word(
        self,
        phrase: Phrase,
        passage: Passage,
        mentions: Sequence[Passage],
        others: Sequence[Phrase],
        rng: random.Random,
    ) -> tuple[str, str, str]:
        """A question, its cue and its template's name; ("", "", "") when no cue singles the passage out."""
        rivals = [m for m in mentions if m.number != passage.number]
        cues = [c for c in others if _apart(phrase, c) and not any(r.mentions(c) for r in rivals)][:CUES_TRIED]
        if cues:
            number = rng.randrange(len(templates.SINGLE_CUE))
            cue = cues[0].text
            return templates.SINGLE_CUE[number].format(phrase=phrase.text, cue=cue), cue, f"single-cue-{number}"
        if rivals:
            return "", "", ""
        number = rng.randrange(len(templates.SINGLE))
        return templates.SINGLE[number].format(phrase=phrase.text), "", f"single-{number}"

    def multi(self, papers: Mapping[str, Sequence[Passage]], wanted: int) -> Iterator[Draft]:
        """Phrases that two or more papers treat, the tiers taking turns, widest first."""
        if wanted <= 0 or len(papers) < 2:
            return
        rng = random.Random(content_key(self._seed, "multi", sorted(papers)))
        tiers: dict[str, list[tuple[float, Phrase, list[Passage]]]] = {"5+": [], "3-4": [], "2": []}
        for phrase in self._shared_phrases(papers):
            evidence = self._evidence(phrase, papers)
            if evidence:
                tier = tier_of(len({p.paper_id for p in evidence}))
                tiers[tier].append((self._weights.of(phrase), phrase, evidence))
        for ranked in tiers.values():
            ranked.sort(key=lambda row: (-row[0], row[1].key))
        for row in zip_longest(*tiers.values()):
            for _, phrase, evidence in filter(None, row):
                number = rng.randrange(len(templates.MULTI))
                question = templates.MULTI[number].format(phrase=phrase.text)
                if gives_away(question, [p.text for p in evidence]):
                    self.rejected["gives its evidence away"] += 1
                    continue
                details = {"phrase": phrase.text, "cue": "", "template": f"multi-{number}"}
                yield Draft(question, "multi", tuple(papers), tuple(evidence), details)

    def _shared_phrases(self, papers: Mapping[str, Sequence[Passage]]) -> list[Phrase]:
        """Phrases of two or more words, each once, whose key stands in at least two papers."""
        whole = ["\n".join(p.stem_string for p in passages) for passages in papers.values()]
        seen: dict[str, Phrase] = {}
        for passages in papers.values():
            for passage in passages:
                for phrase in passage.phrases if passage.can_be_evidence else ():
                    if len(phrase.words) >= 2 and phrase.key not in seen:
                        seen[phrase.key] = phrase
        return [p for p in seen.values() if sum(p.key in text for text in whole) >= 2]

    def _evidence(self, phrase: Phrase, papers: Mapping[str, Sequence[Passage]]) -> list[Passage]:
        """The passages about the phrase, one or two a paper; empty when it is unclear which they are."""
        evidence: list[Passage] = []
        for passages in papers.values():
            uses = [(_uses(phrase, p), p) for p in passages if p.mentions(phrase)]
            most = max((count for count, _ in uses), default=0)
            about = [p for count, p in uses if 2 * count > most]
            if len(about) > 2:
                self.rejected["phrase in too many passages"] += 1
                return []
            if any(not p.can_be_evidence for p in about):
                self.rejected["phrase in an abstract, caption or unfit paragraph"] += 1
                return []
            evidence += about
        return evidence if len({p.paper_id for p in evidence}) >= 2 else []


def _apart(phrase: Phrase, cue: Phrase) -> bool:
    """The cue stands elsewhere in the paragraph than the phrase, and shares no word with it."""
    distance = max(cue.start - phrase.start - len(phrase.text), phrase.start - cue.start - len(cue.text))
    return (
        distance >= 25
        and not set(phrase.words) & set(cue.words)
        and phrase.key not in cue.key
        and cue.key not in phrase.key
    )


def _uses(phrase: Phrase, passage: Passage) -> int:
    return max(1, passage.stem_string.count(phrase.key), passage.letters.count(squeeze(phrase.text)))
