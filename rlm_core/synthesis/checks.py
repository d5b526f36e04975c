"""Checks that every question passes, whoever wrote it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rlm_core.synthesis.words import content_stems, tokens

MAX_SHARED_RUN = 5
"""Words that a question may share with its evidence in a row: room for a key phrase, not for a quotation."""
DUPLICATE = 0.75
_FRAME = frozenset(
    content_stems(
        """address answer author bring collect come compare cover deal discuss evidence find gather give include link mention
        paper part passage quote regard role say see several show tell treat would write here"""
    )
)
"""Stems that questions share because of how they are worded, not of what they ask."""


def shared_run(question: str, evidence: str) -> int:
    """Length in words of the longest run that both share."""
    a, b = tokens(question), tokens(evidence)
    longest = 0
    row = [0] * (len(b) + 1)
    for word in a:
        new = [0] * (len(b) + 1)
        for j, other in enumerate(b, 1):
            if word == other:
                new[j] = row[j - 1] + 1
                longest = max(longest, new[j])
        row = new
    return longest


def gives_away(question: str, evidence: Iterable[str], *, allowed: int = MAX_SHARED_RUN) -> bool:
    """The question quotes more than `allowed` words in a row of its evidence."""
    return any(shared_run(question, text) > allowed for text in evidence)


def topic_stems(question: str) -> frozenset[str]:
    """What a question asks about, without its wording."""
    return frozenset(content_stems(question)) - _FRAME


def similar(a: frozenset[str], b: frozenset[str]) -> bool:
    """Two questions' topic stems overlap so far that one is a rewording of the other (Jaccard)."""
    union = len(a | b)
    return union > 0 and len(a & b) >= DUPLICATE * union


def near_duplicates(questions: Sequence[str]) -> list[int]:
    """Numbers of the questions that reword an earlier one."""
    kept: list[frozenset[str]] = []
    repeated = []
    for number, question in enumerate(questions):
        stems = topic_stems(question)
        if any(similar(stems, other) for other in kept):
            repeated.append(number)
        else:
            kept.append(stems)
    return repeated
