"""Search terms from a question: what a person would type into a search box, best first."""

from __future__ import annotations

import re

_QUOTED = re.compile(r"\"([^\"]{3,80})\"|“([^”]{3,80})”|‘([^’]{3,80})’|(?<!\w)'([^']{3,80})'(?!\w)|`([^`]{3,80})`")
_WORD = re.compile(r"[^\W_]+(?:[-'’/.][^\W_]+)*")

_STOP = frozenset(
    [
        "a",
        "about",
        "above",
        "according",
        "across",
        "after",
        "again",
        "against",
        "all",
        "along",
        "also",
        "among",
        "an",
        "and",
        "any",
        "are",
        "as",
        "at",
        "be",
        "because",
        "been",
        "before",
        "being",
        "below",
        "between",
        "both",
        "but",
        "by",
        "can",
        "cannot",
        "could",
        "did",
        "do",
        "does",
        "doing",
        "down",
        "during",
        "each",
        "either",
        "every",
        "few",
        "for",
        "from",
        "further",
        "had",
        "has",
        "have",
        "having",
        "he",
        "her",
        "here",
        "him",
        "his",
        "how",
        "i",
        "if",
        "in",
        "into",
        "is",
        "it",
        "its",
        "itself",
        "just",
        "kind",
        "kinds",
        "like",
        "may",
        "might",
        "more",
        "most",
        "much",
        "must",
        "my",
        "no",
        "nor",
        "not",
        "of",
        "off",
        "on",
        "once",
        "one",
        "only",
        "onto",
        "or",
        "other",
        "others",
        "our",
        "out",
        "over",
        "own",
        "per",
        "rather",
        "s",
        "same",
        "shall",
        "she",
        "should",
        "since",
        "so",
        "some",
        "such",
        "than",
        "that",
        "the",
        "their",
        "them",
        "then",
        "there",
        "these",
        "they",
        "this",
        "those",
        "through",
        "thus",
        "to",
        "too",
        "toward",
        "towards",
        "two",
        "type",
        "types",
        "under",
        "until",
        "up",
        "upon",
        "us",
        "use",
        "used",
        "uses",
        "using",
        "very",
        "via",
        "was",
        "we",
        "were",
        "what",
        "when",
        "where",
        "whether",
        "which",
        "while",
        "who",
        "whom",
        "whose",
        "why",
        "will",
        "with",
        "within",
        "without",
        "would",
        "you",
        "your",
    ]
)
_SCAFFOLD = frozenset(
    [
        "address",
        "addresses",
        "addressed",
        "answer",
        "answers",
        "article",
        "articles",
        "author",
        "authors",
        "collect",
        "concern",
        "concerned",
        "concerning",
        "concerns",
        "cover",
        "covers",
        "deal",
        "deals",
        "describe",
        "described",
        "describes",
        "description",
        "detail",
        "details",
        "discuss",
        "discussed",
        "discusses",
        "discussion",
        "document",
        "documents",
        "evidence",
        "explain",
        "explained",
        "explains",
        "explanation",
        "find",
        "finding",
        "findings",
        "found",
        "give",
        "given",
        "gives",
        "group",
        "identify",
        "information",
        "look",
        "made",
        "mention",
        "mentioned",
        "mentions",
        "note",
        "noted",
        "paper",
        "papers",
        "paragraph",
        "part",
        "parts",
        "passage",
        "passages",
        "point",
        "points",
        "present",
        "presented",
        "presents",
        "quote",
        "read",
        "regarding",
        "relate",
        "related",
        "relating",
        "report",
        "reported",
        "reports",
        "say",
        "says",
        "section",
        "sections",
        "show",
        "shown",
        "shows",
        "source",
        "sources",
        "speak",
        "state",
        "stated",
        "statement",
        "statements",
        "states",
        "studied",
        "studies",
        "study",
        "talk",
        "talks",
        "tell",
        "tells",
        "text",
        "texts",
        "topic",
        "treat",
        "treats",
        "work",
        "works",
        "write",
        "writes",
        "written",
        "support",
        "supports",
        "supporting",
        "role",
        "play",
        "plays",
        "said",
    ]
)

MAX_PHRASES = 8
_FIRST = 6.0
"""Weight of being named first, in letters: questions tend to name their subject before its circumstances."""


def content_words(text: str) -> list[str]:
    """The words that carry meaning, lower case, in order."""
    return [w for w in (m.group().lower() for m in _WORD.finditer(text)) if w not in _STOP and w not in _SCAFFOLD]


def key_phrases(question: str) -> list[str]:
    """Up to `MAX_PHRASES` search terms, best first: what is quoted, runs of content words, then long single words.

    >>> key_phrases("What does the paper report about graph neural networks for traffic?")[:2]
    ['graph neural networks', 'traffic']
    """
    quoted = [next(g for g in m.groups() if g).strip(" .,;?!") for m in _QUOTED.finditer(question)]
    rest = _QUOTED.sub(" , ", question)
    found = _runs(rest)
    runs = sorted(found, key=lambda run: -_weight(run) - (_FIRST if run is found[0] else 0.0))
    phrases = quoted + [" ".join(run) for run in runs]
    words = [w for phrase in phrases for w in phrase.split() if w.lower() not in _STOP]
    phrases += sorted(words, key=lambda w: -_weight([w]))
    seen: set[str] = set()
    unique = [p for p in phrases if len(p) > 2 and not (p.lower() in seen or seen.add(p.lower()))]  # type: ignore[func-returns-value]
    return unique[:MAX_PHRASES]


def _runs(text: str) -> list[list[str]]:
    """Maximal runs of content words, not across punctuation."""
    runs: list[list[str]] = [[]]
    end = 0
    for match in _WORD.finditer(text):
        word = match.group()
        if text[end : match.start()].strip():
            runs.append([])
        end = match.end()
        if word.lower() in _STOP or word.lower() in _SCAFFOLD:
            runs.append([])
        else:
            runs[-1].append(word)
    return [run for run in runs if run]


def _weight(run: list[str]) -> float:
    """Longer is rarer; names, numbers and hyphens are telling; beyond four words a literal match gets unlikely."""
    weight = float(sum(min(len(w), 12) for w in run[:4]))
    weight += sum(4.0 for w in run[:4] if any(c.isdigit() or c.isupper() for c in w[1:]) or "-" in w)
    return weight if len(run) > 1 else 0.7 * weight
