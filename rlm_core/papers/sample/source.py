"""Read the content files of the sample library (`topics/*.txt`).

A file has a head of `key: value` lines, then blocks::

    == paper 1                  key: value lines; `table`, `row`, `figure` and `caption` describe its table and figure
    == references               one title a line: "Title | Journal"
    == themes
    ## lysimeter drift correction | 1 3 4 | P
    One sentence pattern a line (see `grammar`); a line may start with
      "? "      half of the papers have it
      "@1,3 "   only papers 1 and 3 have it
      "$ "      an equation in Typst's notation, set after the paragraph

A theme's head gives its phrase, the papers that discuss it and its section (`SECTIONS`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TOPICS_FOLDER = Path(__file__).parent / "topics"
TOPIC_KEYS = ("soil", "perovskite", "sleep", "coral", "bridge", "cheese")
PAPERS_PER_TOPIC = 6
SECTIONS = "IMPARDLC"
"""Introduction, Materials, Procedures, Analysis, Results, Discussion, Limitations, Conclusions."""


@dataclass(frozen=True, slots=True)
class Line:
    """One sentence pattern or equation of a theme."""

    text: str
    optional: bool = False
    papers: frozenset[int] | None = None
    """None: all that have the theme."""
    equation: bool = False


@dataclass(frozen=True, slots=True)
class Theme:
    """What one paragraph of one or several papers is about."""

    phrase: str
    """Occurs in the theme's paragraphs, in no other paragraph of the topic."""
    papers: tuple[int, ...]
    """Numbers of the papers that discuss it; empty for the common themes, which every topic deals out by itself."""
    section: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class PaperSource:
    """The head of one paper: facts as patterns, rows of its table."""

    number: int
    facts: dict[str, str]
    rows: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TopicSource:
    """One content file."""

    key: str
    facts: dict[str, str]
    papers: tuple[PaperSource, ...]
    themes: tuple[Theme, ...]
    references: tuple[str, ...]


@cache
def read_topic(key: str) -> TopicSource:
    """The content file of a topic, or the themes common to all with the key "common"."""
    path = TOPICS_FOLDER / f"{key}.txt"
    return parse_topic(key, path.read_text(encoding="utf-8"), str(path.name))


def parse_topic(key: str, text: str, name: str = "content") -> TopicSource:
    """Parse a content file; raises `ValueError` naming file and line for what it cannot read."""
    facts: dict[str, str] = {}
    papers: list[PaperSource] = []
    themes: list[Theme] = []
    references: list[str] = []
    block = "head"
    rows: list[str] = []
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith("//"):
            continue
        where = f"{name}:{number}"
        if line.startswith("== "):
            block = line[3:].split()[0]
            if block == "paper":
                rows = []
                papers.append(PaperSource(int(line.split()[2]), {}, ()))
        elif line.startswith("## "):
            themes.append(_theme_head(line[3:], where))
        elif block == "references":
            references.append(line)
        elif block == "themes":
            if not themes:
                raise ValueError(f"{where}: a sentence before the first '## phrase | papers | section'")
            last = themes[-1]
            themes[-1] = Theme(last.phrase, last.papers, last.section, (*last.lines, _line(line)))
        else:
            name_, colon, value = line.partition(": ")
            if not colon:
                raise ValueError(f"{where}: expected 'key: value', got {line!r}")
            if block == "paper" and name_ == "row":
                rows.append(value)
                papers[-1] = PaperSource(papers[-1].number, papers[-1].facts, tuple(rows))
            else:
                (papers[-1].facts if block == "paper" else facts)[name_] = value
    return TopicSource(key, facts, tuple(papers), tuple(themes), tuple(references))


def _theme_head(head: str, where: str) -> Theme:
    parts = [part.strip() for part in head.split("|")]
    if len(parts) == 2:  # a common theme
        parts.insert(1, "")
    if len(parts) != 3 or parts[2] not in SECTIONS:
        raise ValueError(f"{where}: expected '## phrase | papers | section' with a section of {SECTIONS}, got {head!r}")
    return Theme(parts[0], tuple(int(n) for n in parts[1].split()), parts[2], ())


def _line(line: str) -> Line:
    if line.startswith("$ "):
        return Line(line[2:], equation=True)
    optional = line.startswith("? ")
    line = line.removeprefix("? ")
    only = re.match(r"@([\d,]+) ", line)
    if only:
        return Line(line[only.end() :], optional, frozenset(int(n) for n in only[1].split(",")))
    return Line(line, optional)
