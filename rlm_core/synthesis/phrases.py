"""Key phrases of a paragraph without a parser of language: runs of topic words between stop words and punctuation.

After RAKE (Rose et al., 2010: candidates) and C-value (Frantzi et al., 2000: longer and oftener is better, nested phrases
count less), ranked by how few papers of the library use the phrase's words.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from rlm_core.synthesis.words import STOP, VAGUE, VERBISH, VERBS, squeeze, stem, tokens

MAX_WORDS = 4
_BREAK = re.compile(r"[.,;:!?()\[\]{}\"“”‘/|=<>±%&*]|['’](?!\w)|(?<!\w)'|\s[-–—]\s|[–—]|\b\d[\w.,]*")
_WORD = re.compile(r"(?:\b[A-Z]\. (?=[a-z]{4}))?[^\W\d_]+(?:['’\-‐‑][^\W_]+)*")
"""A word; the short form of a genus belongs to its species: "C. albicans"."""
_GENUS_DOT = re.compile(r"\b[A-Z]\.(?= [a-z]{4})")
_CITED = re.compile(r"\s*(?:,\s*|\()*(?:(?:19|20)\d\d\b|et al\b)")
_INITIAL = re.compile(r"\b[A-Z]\.$")
_PLURAL = re.compile(r"(?:[^aisu]|ea)s$")
_PARTICIPLE = re.compile(r"[aeiouy]\w*(?<!th)ing$")


@dataclass(frozen=True, slots=True)
class Phrase:
    """`text` as the paper writes it inside a sentence; `key` holds inflections and spellings of it together."""

    text: str
    key: str
    start: int
    """Offset of the phrase in its paragraph."""
    after_to: bool = False
    """"to" stands before it: perhaps a verb."""

    @property
    def words(self) -> list[str]:
        return tokens(self.text)


def key_of(text: str) -> str:
    """Stems joined without spaces or hyphens: "soil-sample" and "Soil samples" have one key."""
    return "".join(stem(part) for token in tokens(text) for part in re.split(r"[\-‐‑]", token))


def phrases_of(paragraph: str, names: frozenset[str] = frozenset()) -> list[Phrase]:
    """Candidate key phrases of 1 to 4 words, in order, each once.

    `names`: words, lower case, whose capital is their own and is kept where a sentence begins with them.
    """
    found: dict[str, Phrase] = {}
    genus = {m.end() - 1 for m in _GENUS_DOT.finditer(paragraph)}
    breaks = (p for m in _BREAK.finditer(paragraph) if m.start() not in genus for p in m.span())
    bounds = [0, *breaks, len(paragraph)]
    for low, high in zip(bounds[::2], bounds[1::2], strict=True):
        for run in _topic_runs(paragraph, low, high):
            if not 1 <= len(run) <= MAX_WORDS:
                continue
            start, end = run[0].start(), run[-1].end()
            first = _begins_sentence(paragraph, start) and _base(run[0].group()) not in names
            text = _as_inside(" ".join(paragraph[start:end].split()), first=first)
            cited = len(run) > 1 and text.istitle() and _CITED.match(paragraph, end)
            if _is_phrase(text) and not cited:
                after_to = paragraph[low:start].rstrip().lower().endswith(" to")
                found.setdefault(key_of(text), Phrase(text, key_of(text), start, after_to))
    return list(found.values())


def _topic_runs(paragraph: str, low: int, high: int) -> Iterable[list[re.Match[str]]]:
    run: list[re.Match[str]] = []
    for match in _WORD.finditer(paragraph, low, high):
        word = match.group().lower()
        unit = len(word) < 3 and not match.group().isupper()
        participle = bool(run and _PARTICIPLE.search(word) and _PLURAL.search(run[-1].group()))
        if _base(word) in STOP or word in VERBS or unit or participle or _is_past(match, paragraph):
            yield run
            run = []
        else:
            run.append(match)
    yield run


def _is_past(match: re.Match[str], paragraph: str) -> bool:
    """An adverb or a past verb by its ending, unless it is part of a name: "the United Nations"."""
    word = match.group()
    name = word[0].isupper() and not _begins_sentence(paragraph, match.start())
    return bool(VERBISH.match(word.lower())) and "-" not in word and not name


def _base(word: str) -> str:
    """Lower case, without what follows an apostrophe: "it" of "it's", "does" of "doesn't".

    >>> _base("Doesn't"), _base("Other’s"), _base("Bell")
    ('does', 'other', 'bell')
    """
    return re.sub(r"(?:n['’]t|['’]\w*)$", "", word.lower())


def _is_phrase(text: str) -> bool:
    words = tokens(text)
    if not words or words[0] in VAGUE or all(w in VAGUE or len(w) < 3 for w in words):
        return False
    letters = squeeze(text)
    return len(letters) >= (9 if len(words) == 1 else 8)


def _begins_sentence(paragraph: str, start: int) -> bool:
    before = paragraph[:start].rstrip()
    return not before or (before[-1] in ".!?:" and not _INITIAL.search(before[-3:]))


def own_capitals(paragraphs: Iterable[str]) -> frozenset[str]:
    """Words, lower case, that stand capitalised inside sentences and never small: names, so far as these paragraphs tell."""
    small: set[str] = set()
    capital: set[str] = set()
    for paragraph in paragraphs:
        for match in _WORD.finditer(paragraph):
            word = match.group()
            if word[0].islower():
                small.add(_base(word))
            elif word[1:].islower() and not _begins_sentence(paragraph, match.start()):
                capital.add(_base(word))
    return frozenset(capital - small)


def _as_inside(text: str, *, first: bool) -> str:
    """The phrase as it reads inside a sentence: a capital that only begins the sentence is lowered."""
    head, _, rest = text.partition(" ")
    if first and len(head) > 3 and head[1:].islower() and not any(c.isupper() for c in rest):
        return head[0].lower() + head[1:] + (" " + rest if rest else "")
    return text


class Weights:
    """How telling phrases are in a library: C-value over all its paragraphs, times how rare their words are."""

    def __init__(self, papers: Iterable[Iterable[str]]) -> None:
        """`papers`: the paragraphs of each paper."""
        self._uses: Counter[str] = Counter()
        self._papers_with: Counter[str] = Counter()
        self._num_papers = 0
        for paragraphs in papers:
            self._num_papers += 1
            stems: set[str] = set()
            for paragraph in paragraphs:
                self._uses.update(p.key for p in phrases_of(paragraph))
                stems.update(stem(t) for t in tokens(paragraph))
            self._papers_with.update(stems)

    def share(self, phrase: Phrase) -> float:
        """Of the library's papers, those that use the phrase's rarest word."""
        return min(self._papers_with[stem(w)] for w in phrase.words) / self._num_papers

    def of(self, phrase: Phrase) -> float:
        words = phrase.words
        rarity = [math.log((self._num_papers + 1) / (self._papers_with[stem(w)] + 0.5)) for w in words]
        length = {1: 0.6, 2: 1.5, 3: 1.7, 4: 1.3}[min(len(words), MAX_WORDS)]
        uses = self._uses[phrase.key]
        known = (1.4 if uses > 1 else 1.0) * (1 + 0.3 * math.log(max(1, uses)))
        # Verbs that no ending gives away: "introducing beginners", "to introduce beginners", "users frustrating".
        doubt = 0.5 if phrase.after_to or words[0].endswith("ing") else 1.0
        return length * (0.3 + max(0.0, sum(rarity) / len(rarity))) * known * doubt
