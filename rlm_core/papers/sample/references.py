"""Invented references and how they are cited: numbered in brackets, or author and year, by the topic's `citations`."""

from __future__ import annotations

import random

from rlm_core.papers.sample.source import TopicSource

_SURNAMES = [
    "Abeyta",
    "Brandvold",
    "Castellan",
    "Dreyfuss",
    "Eskelin",
    "Farrant",
    "Gulliksen",
    "Hollender",
    "Ivarsen",
    "Jankowiak",
    "Kessling",
    "Lindqvar",
    "Mbekani",
    "Nordahl",
    "Okonjo",
    "Pellerano",
    "Quillan",
    "Rostov",
    "Sagarra",
    "Tamsin",
    "Ulverton",
    "Vasquero",
    "Wetherall",
    "Xanthou",
    "Yamazuki",
    "Zielonka",
    "Ashgrove",
    "Birkmann",
    "Coppola",
    "Dunmore",
    "Ellerby",
    "Fontanet",
    "Grimaldo",
    "Haverkamp",
]
_INITIALS = "ABCDEFGHJKLMNPRST"


class Bibliography:
    """The references of one paper, numbered as they are first cited."""

    def __init__(self, topic: TopicSource, paper_id: str, seed: int) -> None:
        self._numbered = topic.facts["citations"] == "numeric"
        self._pool = [_Entry(title, seed) for title in topic.references]
        self._next = random.Random(f"{seed}/{paper_id}/references")
        self._queue: list[_Entry] = []
        self._cited: list[_Entry] = []

    def cite(self) -> str:
        """The next citation; every reference of the topic is cited once before any is cited again."""
        if not self._queue:
            self._queue = self._next.sample(self._pool, len(self._pool))
        entry = self._queue.pop()
        if entry not in self._cited:
            self._cited.append(entry)
        return f"[{self._cited.index(entry) + 1}]" if self._numbered else f"({entry.short})"

    def printed(self) -> tuple[str, ...]:
        """The reference list: in order of citation, or by author; titles keep no marks."""
        if self._numbered:
            return tuple(f"[{n}] {entry.full}" for n, entry in enumerate(self._cited, 1))
        return tuple(entry.full for entry in sorted(self._cited, key=lambda entry: entry.full))


class _Entry:
    def __init__(self, line: str, seed: int) -> None:
        title, _, journal = (part.strip() for part in line.partition("|"))
        draw = random.Random(f"{seed}/{title}")
        names = draw.sample(_SURNAMES, draw.choice((1, 2, 2, 3, 3)))
        year = draw.randint(1994, 2021)
        first = draw.randint(11, 890)
        joined = ", ".join(f"{name}, {draw.choice(_INITIALS)}." for name in names)
        shown = {1: names[0], 2: " and ".join(names[:2])}.get(len(names), f"{names[0]} et al.")
        self.short = f"{shown}, {year}"
        pages = f"{first}–{first + draw.randint(6, 19)}"
        self.full = f"{joined} ({year}). {title}. {journal} {draw.randint(3, 61)}, {pages}.".replace("'", "’")
