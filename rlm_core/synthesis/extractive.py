"""The extractive writer: questions built around key phrases, without a model.

A single-paper question names a phrase and a second cue that stand together in one paragraph only, which also ranks first
for the question by a clear margin. A multi-paper question names a phrase that several papers treat, or two that they
treat together, and its evidence is the one or two paragraphs of each paper that do. In groups of five papers and more it
may ask for an aspect that most papers have (`aspects`), and leave out papers where the evidence is not clear.
Limits: it asks where something is treated, not why or how much, and its wording is plain.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest

from rlm_core.files import content_key
from rlm_core.records import tier_of
from rlm_core.synthesis import templates
from rlm_core.synthesis.aspects import Spoken, spoken_of
from rlm_core.synthesis.checks import gives_away
from rlm_core.synthesis.drafts import Draft
from rlm_core.synthesis.passages import BEST_CHARS, PaperIndex, Passage
from rlm_core.synthesis.phrases import Phrase, Weights
from rlm_core.synthesis.shared_topics import PAIR_PAPERS, WIDE, Topic, shared_topics

MIN_MARGIN = 1.2
"""How far the evidence must outscore every other passage of its paper (BM25, for the question)."""
MAX_MENTIONS = 3
"""Passages of a paper that may mention a single-paper question's phrase; the cue tells them apart."""
PHRASES_TRIED = 8
CUES_TRIED = 6
ROUNDS = 2
"""Questions a paragraph at most, and multi-paper questions of a group that name the same phrase."""


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
        """Topics that two or more papers treat and aspects of three or more, the tiers taking turns, widest first."""
        if wanted <= 0 or len(papers) < 2:
            return
        rng = random.Random(content_key(self._seed, "multi", sorted(papers)))
        tiers: dict[str, list[Topic | Spoken]] = {"5+": [], "3-4": [], "2": []}
        aspects = self._aspects(papers)
        for topic in shared_topics(papers, self._weights, self.rejected):
            if not any(spoken.aspect.words.search(topic.phrase.text) for spoken in aspects):
                tiers[tier_of(topic.num_papers)].append(topic)
        for spoken in aspects:
            tiers[tier_of(spoken.num_papers)].append(spoken)
        leads: Counter[str] = Counter()
        for row in zip_longest(*tiers.values()):
            for matter in filter(None, row):
                names = _names(matter)
                if any(leads[name] >= ROUNDS for name in names):
                    self.rejected["phrase asked about often enough"] += 1
                    continue
                draft = _ask_for(matter, rng) if isinstance(matter, Spoken) else _ask_all(matter, tuple(papers), rng)
                if gives_away(draft.question, [p.text for p in matter.evidence]):
                    self.rejected["gives its evidence away"] += 1
                    continue
                leads.update(names)
                yield draft

    def _aspects(self, papers: Mapping[str, Sequence[Passage]]) -> list[Spoken]:
        """In an order of this group's own, so that not every group is asked for the same."""
        found: list[Spoken] = []
        for spoken in spoken_of(papers) if len(papers) >= WIDE else ():
            if len(spoken.readable) < WIDE:
                self.rejected["aspect unclear in too many papers"] += 1
            elif spoken.num_papers >= PAIR_PAPERS:
                found.append(spoken)
        random.Random(content_key(self._seed, "aspects", sorted(papers))).shuffle(found)
        return found


def _names(matter: Topic | Spoken) -> list[str]:
    """What a group is not asked about again and again."""
    if isinstance(matter, Spoken):
        return [matter.aspect.name]
    return [matter.phrase.key, *([matter.cue.key] if matter.cue else [])]


def _ask_all(topic: Topic, paper_ids: tuple[str, ...], rng: random.Random) -> Draft:
    choices = templates.MULTI_CUE if topic.cue else templates.MULTI
    number = rng.randrange(len(choices))
    cue = topic.cue.text if topic.cue else ""
    question = choices[number].format(phrase=topic.phrase.text, cue=cue)
    template = f"multi-cue-{number}" if cue else f"multi-{number}"
    details = {"phrase": topic.phrase.text, "cue": cue, "template": template}
    readable = tuple(p for p in paper_ids if p not in topic.left_out)
    return Draft(question, "multi", readable, topic.evidence, details)


def _ask_for(spoken: Spoken, rng: random.Random) -> Draft:
    number = rng.randrange(len(spoken.aspect.questions))
    details = {"aspect": spoken.aspect.name, "template": f"aspect-{spoken.aspect.name}-{number}"}
    return Draft(spoken.aspect.questions[number], "multi", spoken.readable, spoken.evidence, details)


def _apart(phrase: Phrase, cue: Phrase) -> bool:
    """The cue stands elsewhere in the paragraph than the phrase, and shares no word with it."""
    distance = max(cue.start - phrase.start - len(phrase.text), phrase.start - cue.start - len(cue.text))
    return (
        distance >= 25
        and not set(phrase.words) & set(cue.words)
        and phrase.key not in cue.key
        and cue.key not in phrase.key
    )
