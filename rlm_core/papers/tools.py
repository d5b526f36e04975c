"""The tools that a policy finds in its REPL: list_papers, search, extract_section, get_paper_abstract.

Standard library only: this is imported inside the sandbox. Prompts quote each tool's signature and the first line of its
docstring, so both say exactly what the tool does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from rlm_core.papers.matching import Found, Hit, Vocabulary, find_phrase, key_words, literal, near
from rlm_core.papers.passages import Lines, Passage, Passages
from rlm_core.papers.textindex import TextIndex

MAX_PASSAGES = 8
_TITLE_CHARS = 110
_PAPER_KEYS = frozenset({"id", "title", "abstract", "text"})


def make_tools(context: Any) -> dict[str, Callable[..., Any]]:
    """The tools over a context: one text (a paper with the id "context"), or `{paper_id: {"title", "abstract", "text"}}`.

    A value that is a plain string is a paper's text; one paper's own dict counts as one paper.
    The index is built at the first search.
    """
    tools = Tools(context)
    return {
        "list_papers": tools.list_papers,
        "search": tools.search,
        "extract_section": tools.extract_section,
        "get_paper_abstract": tools.get_paper_abstract,
    }


class Tools:
    """The tools as methods, so that they share one index."""

    def __init__(self, context: Any) -> None:
        self._papers = _as_papers(context)

    def list_papers(self) -> list[str]:
        """Return one "id: title" string for each paper."""
        return Lines(f"{key}: {_short(paper['title'])}" for key, paper in self._papers.items())

    def search(self, keyword: str, paper: str | None = None, window: int = 300) -> list[Passage]:
        """Return up to 8 passages of about `window` characters with `keyword`, best first; else the closest ones."""
        _check_phrase("search", keyword)
        if isinstance(window, bool) or not isinstance(window, int | float):
            raise TypeError(f"search takes window as a number of characters, got {type(window).__name__}")
        indexes = self._select(paper)
        found = find_phrase(keyword, indexes, max(window, 300), self._alike)
        note = "" if found.how == "literal" else f"no exact match for {keyword!r}; closest passages:"
        if not found.hits:
            note = f"nothing found for {keyword!r}; try other words"
        return Passages(self._passages(found, indexes, max(40, int(window))), note)

    def extract_section(self, start_phrase: str, end_phrase: str, paper: str | None = None) -> str:
        """Return the text from `start_phrase` to `end_phrase`, both included; raise ValueError if one of them is not there."""
        _check_phrase("extract_section", start_phrase)
        _check_phrase("extract_section", end_phrase)
        indexes = self._select(paper)
        starts = self._places(start_phrase, indexes)
        if not starts:
            raise self._missing("start_phrase", start_phrase, indexes)
        for start in starts:
            index = indexes[start.paper]
            ends = self._places(end_phrase, {start.paper: index})
            after = [e for e in ends if e.start >= start.end] or [e for e in ends if e.end >= start.end]
            if after:
                end = min(after, key=lambda e: e.start)
                return Passage(index.text[start.start : end.end], start.paper, start.start, end.end)
        raise self._missing("end_phrase", end_phrase, {s.paper: indexes[s.paper] for s in starts}, " after the start")

    def get_paper_abstract(self, paper: str) -> str:
        """Return the paper's abstract, or the first 1000 characters of its text if no abstract is known."""
        key = self._resolve(paper)
        found = self._papers[key]
        return found["abstract"] or found["text"][:1000]

    def _select(self, paper: str | None) -> dict[str, TextIndex]:
        if paper is None:
            return self._indexes
        key = self._resolve(paper)
        return {key: self._indexes[key]}

    def _resolve(self, paper: str) -> str:
        """The id meant: exact, a row of list_papers(), another case, or a title; else a ValueError that lists the ids."""
        name = str(paper).strip()
        for candidate in (name, name.split(":", 1)[0].strip()):
            if candidate in self._papers:
                return candidate
        for key, known in self._papers.items():
            if name.casefold() in (key.casefold(), known["title"].strip().casefold()):
                return key
        ids = ", ".join(repr(key) for key in list(self._papers)[:30])
        raise ValueError(f"no paper {name!r}; the papers are: {ids}")

    @cached_property
    def _indexes(self) -> dict[str, TextIndex]:
        return {key: TextIndex(paper["text"]) for key, paper in self._papers.items()}

    @cached_property
    def _vocabulary(self) -> Vocabulary:
        return Vocabulary(self._indexes.values())

    def _alike(self, word: str) -> list[str]:
        return self._vocabulary.alike(word)

    def _passages(self, found: Found, indexes: Mapping[str, TextIndex], window: int) -> list[Passage]:
        """Surroundings of the hits: overlapping ones merged, references last, the best of each paper before the second best."""
        merged: dict[str, list[tuple[int, int, int, float]]] = {}
        for hit in sorted(found.hits, key=lambda h: (h.paper, h.start)):
            index = indexes[hit.paper]
            start, end = index.around(hit.start, hit.end, window)
            score = hit.score * (0.3 if hit.start >= index.references_start else 1.0)
            rows = merged.setdefault(hit.paper, [])
            if rows and start < rows[-1][1] and max(end, rows[-1][1]) - rows[-1][0] <= 3 * window:
                low, high, first, gathered = rows[-1]
                rows[-1] = (low, max(high, end), first, max(gathered, score) + 0.2 * min(gathered, score))
            else:
                rows.append((start if not rows else max(start, rows[-1][1]), end, hit.start, score))
        ranked: list[tuple[int, float, Passage]] = []
        for paper, rows in merged.items():
            for place, (start, end, first, score) in enumerate(sorted(rows, key=lambda row: (-row[3], row[0]))):
                text = indexes[paper].text[start:end]
                ranked.append((place, -score, Passage(text, paper, start, end, max(0, first - start))))
        ranked.sort(key=lambda row: row[:2])
        best = sorted(ranked[:MAX_PASSAGES], key=lambda row: row[1])
        return [passage for _, _, passage in best]

    def _places(self, phrase: str, indexes: Mapping[str, TextIndex]) -> list[Hit]:
        """Where the phrase is: literally, in order; else places with nearly all of its words close together, best first."""
        if hits := literal(phrase, indexes):
            return hits
        words = key_words(phrase)
        if len(words) < 3:
            return []
        return near([[w] for w in words], indexes, 3 * len(phrase), needed=0.8)

    def _missing(self, argument: str, phrase: str, indexes: Mapping[str, TextIndex], where: str = "") -> ValueError:
        places = ", ".join(repr(key) for key in indexes) if len(indexes) < 4 else f"any of {len(indexes)} papers"
        message = f"{argument} {phrase!r} is not in {places}{where}"
        found = find_phrase(phrase, indexes, max(200, 2 * len(phrase)), self._alike)
        if nearest := self._passages(found, indexes, 120)[:1]:
            message += f"; nearest text ({nearest[0].paper}): {nearest[0].line(140)!r}"
        return ValueError(message)


def _check_phrase(tool: str, phrase: Any) -> None:
    if not isinstance(phrase, str):
        raise TypeError(f"{tool} takes one string at a time, got {type(phrase).__name__}")
    if not any(char.isalnum() for char in phrase):
        raise ValueError(f"{tool} needs a phrase with a letter or digit in it, got {phrase!r}")


def _as_papers(context: Any) -> dict[str, dict[str, str]]:
    if isinstance(context, Mapping):
        if isinstance(context.get("text"), str) and set(context) <= _PAPER_KEYS:
            return {str(context.get("id") or "context"): _as_paper(context)}
        return {str(key): _as_paper(value) for key, value in context.items()}
    if isinstance(context, (list, tuple)):
        return {str(number): _as_paper(value) for number, value in enumerate(context)}
    return {"context": _as_paper(context)}


def _as_paper(value: Any) -> dict[str, str]:
    if isinstance(value, Mapping) and isinstance(value.get("text"), str):
        return {key: str(value.get(key) or "") for key in ("title", "abstract", "text")}
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    head = text[:2000].strip()  # a text of 50 MB may have no line break
    return {"title": _short(head.split("\n", 1)[0]), "abstract": "", "text": text}


def _short(title: str) -> str:
    flat = " ".join(title.split())
    return flat if len(flat) <= _TITLE_CHARS else flat[: _TITLE_CHARS - 3].rstrip() + "..."
