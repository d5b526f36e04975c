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

from rlm_core.synthesis.words import STOP, VAGUE, VERBISH, squeeze, stem, tokens

MAX_WORDS = 4
_BREAK = re.compile(r"[.,;:!?()\[\]{}\"“”‘/|=<>±%&*]|['’](?!\w)|(?<!\w)'|\s[-–—]\s|[–—]|\b\d[\w.,]*")
_WORD = re.compile(r"[^\W\d_]+(?:['’\-‐‑][^\W_]+)*")


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


def phrases_of(paragraph: str) -> list[Phrase]:
    """Candidate key phrases of 1 to 4 words, in order, each once."""
    found: dict[str, Phrase] = {}
    bounds = [0, *(p for m in _BREAK.finditer(paragraph) for p in m.span()), len(paragraph)]
    for low, high in zip(bounds[::2], bounds[1::2], strict=True):
        for run in _topic_runs(paragraph, low, high):
            if not 1 <= len(run) <= MAX_WORDS:
                continue
            start, end = run[0].start(), run[-1].end()
            text = _as_inside(" ".join(paragraph[start:end].split()), first=_begins_sentence(paragraph, start))
            if _is_phrase(text):
                after_to = paragraph[low:start].rstrip().lower().endswith(" to")
                found.setdefault(key_of(text), Phrase(text, key_of(text), start, after_to))
    return list(found.values())


def _topic_runs(paragraph: str, low: int, high: int) -> Iterable[list[re.Match[str]]]:
    run: list[re.Match[str]] = []
    for match in _WORD.finditer(paragraph, low, high):
        word = match.group().lower()
        unit = len(word) < 3 and not match.group().isupper()
        if word in STOP or unit or (VERBISH.match(word) and "-" not in word):
            yield run
            run = []
        else:
            run.append(match)
    yield run


def _is_phrase(text: str) -> bool:
    words = tokens(text)
    if not words or words[0] in VAGUE or all(w in VAGUE or len(w) < 3 for w in words):
        return False
    letters = squeeze(text)
    return len(letters) >= (9 if len(words) == 1 else 8)


def _begins_sentence(paragraph: str, start: int) -> bool:
    before = paragraph[:start].rstrip()
    return not before or before[-1] in ".!?:"


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
