"""The sample papers as plain text: what each says, where, and which theme each paragraph discusses.

Everything here is invented. The text is exact: it is what the typesetter prints, so tests of parsing, OCR and
alignment can compare with it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from rlm_core.papers.sample.exhibits import Figure, Table, read_figure, read_table
from rlm_core.papers.sample.grammar import Expander, PatternError
from rlm_core.papers.sample.references import Bibliography
from rlm_core.papers.sample.source import (
    PAPERS_PER_TOPIC,
    SECTIONS,
    TOPIC_KEYS,
    PaperSource,
    Theme,
    TopicSource,
    read_topic,
)

_COMMON_SIZES = (1, 2, 1, 3, 1, 2, 1, 4, 2, 1, 2, 1, 3)
"""How many papers of a topic get a common theme; each topic starts elsewhere in this cycle."""


@dataclass(frozen=True, slots=True)
class SampleParagraph:
    """One body paragraph."""

    text: str
    """As printed, without hyphenation; `_word_` marks of italics are removed."""
    phrase: str
    """The theme's phrase. No other paragraph of the same topic has it, but for the same theme in other papers."""
    marked: str
    """`text` with its marks of italics, for the typesetter."""
    equation: str = ""
    """Typst notation, set after the paragraph; not part of `text`."""


@dataclass(frozen=True, slots=True)
class SampleSection:
    title: str
    paragraphs: tuple[SampleParagraph, ...]


@dataclass(frozen=True, slots=True)
class SamplePaper:
    """One paper of the sample library, before it is typeset."""

    id: str
    topic: str
    number: int
    """1..6 within its topic."""
    title: str
    short_title: str
    authors: tuple[str, ...]
    affiliation: str
    journal: str
    abstract: str
    keywords: tuple[str, ...]
    sections: tuple[SampleSection, ...]
    references: tuple[str, ...]
    table: Table
    figure: Figure
    footnote: str

    @property
    def paragraphs(self) -> tuple[SampleParagraph, ...]:
        """All body paragraphs, in reading order."""
        return tuple(p for section in self.sections for p in section.paragraphs)

    def truth(self) -> list[dict[str, str]]:
        """Rows {section, phrase, paragraph}: which paragraph discusses what."""
        return [
            {"section": section.title, "phrase": paragraph.phrase, "paragraph": paragraph.text}
            for section in self.sections
            for paragraph in section.paragraphs
        ]


def library_content(*, topics: int = len(TOPIC_KEYS), papers_per_topic: int = 4, seed: int = 0) -> list[SamplePaper]:
    """The papers of the first `topics` topics, topic by topic.

    A paper is the same whatever the two counts are; `seed` changes wording, numbers and order. Raises `ValueError`
    for counts that there is no content for.
    """
    for name, value, most in (
        ("topics", topics, len(TOPIC_KEYS)),
        ("papers_per_topic", papers_per_topic, PAPERS_PER_TOPIC),
    ):
        if not 1 <= value <= most:
            raise ValueError(f"{name} is {value}; the sample library has content for 1 to {most}")
    return [
        build_paper(read_topic(key), number, seed)
        for key in TOPIC_KEYS[:topics]
        for number in range(1, papers_per_topic + 1)
    ]


def theme_papers(papers: Sequence[SamplePaper]) -> dict[tuple[str, str], tuple[str, ...]]:
    """(topic, phrase) -> ids of the papers among `papers` that have a paragraph on it; its length gives the tier."""
    found: dict[tuple[str, str], list[str]] = {}
    for paper in papers:
        for paragraph in paper.paragraphs:
            found.setdefault((paper.topic, paragraph.phrase), []).append(paper.id)
    return {key: tuple(ids) for key, ids in found.items()}


def topic_themes(topic: TopicSource) -> list[tuple[Theme, int]]:
    """The topic's own themes and the common ones it is dealt, each with the rank of its first paper.

    Ranks of common themes count on from topic to topic, so that papers of different topics differ in wording too.
    """
    own = [(theme, 0) for theme in topic.themes]
    index = TOPIC_KEYS.index(topic.key) if topic.key in TOPIC_KEYS else 0
    dealt: list[tuple[Theme, int]] = []
    start = index
    for place, theme in enumerate(read_topic("common").themes):
        size = _COMMON_SIZES[(place + 5 * index) % len(_COMMON_SIZES)]
        papers = tuple(sorted((start + step) % PAPERS_PER_TOPIC + 1 for step in range(size)))
        start += size
        first = sum(_COMMON_SIZES[(place + 5 * before) % len(_COMMON_SIZES)] for before in range(index))
        dealt.append((Theme(theme.phrase, papers, theme.section, theme.lines), first))
    return own + dealt


def build_paper(topic: TopicSource, number: int, seed: int) -> SamplePaper:
    """Paper `number` (1..6) of a topic."""
    source = topic.papers[number - 1]
    paper_id = f"{topic.key}-{number}"
    books = Bibliography(topic, paper_id, seed)
    head = Expander(f"{seed}/{topic.key}/head", number - 1, paper_id, {}, books.cite, spell=False)
    facts: dict[str, str] = {}
    for name, pattern in (topic.facts | source.facts).items():
        head.facts = facts
        facts[name] = pattern if name in ("figure", "table") else head.expand(pattern)
    sections = _sections(topic, source, paper_id, facts, books, seed)
    table = read_table(facts["table"], [head.expand(row) for row in source.rows])
    return SamplePaper(
        id=paper_id,
        topic=topic.key,
        number=number,
        title=facts["title"],
        short_title=facts["short"],
        authors=tuple(name.strip() for name in facts["authors"].split(";")),
        affiliation=facts["affiliation"],
        journal=facts["journal"],
        abstract=_plain(facts["abstract"]),
        keywords=tuple(word.strip() for word in facts["keywords"].split(";")),
        sections=sections,
        references=books.printed(),
        table=table,
        figure=read_figure(facts["figure"], facts["caption"], f"{seed}/{paper_id}"),
        footnote=facts["footnote"],
    )


def _sections(
    topic: TopicSource, source: PaperSource, paper_id: str, facts: dict[str, str], books: Bibliography, seed: int
) -> tuple[SampleSection, ...]:
    by_section: dict[str, list[tuple[Theme, int]]] = {code: [] for code in SECTIONS}
    for theme, first in topic_themes(topic):
        if source.number in theme.papers:
            by_section[theme.section].append((theme, first + theme.papers.index(source.number)))
    sections = []
    for code, themes in by_section.items():
        random.Random(f"{seed}/{paper_id}/order/{code}").shuffle(themes)
        if code == "I":  # what the paper sets out to do ends the introduction
            themes.sort(key=lambda pair: pair[0].papers == (source.number,))
        paragraphs = tuple(_paragraph(topic.key, t, rank, source, paper_id, facts, books, seed) for t, rank in themes)
        if paragraphs:
            sections.append(SampleSection(facts[f"section_{code.lower()}"], paragraphs))
    return tuple(sections)


def _paragraph(
    topic: str,
    theme: Theme,
    rank: int,
    source: PaperSource,
    paper_id: str,
    facts: dict[str, str],
    books: Bibliography,
    seed: int,
) -> SampleParagraph:
    expander = Expander(f"{seed}/{theme.phrase}", rank, paper_id, facts, books.cite)
    sentences: list[str] = []
    equation = ""
    for line in theme.lines:
        if line.papers is not None and source.number not in line.papers:
            continue
        if line.equation:
            equation = line.text
        elif not line.optional or expander.keeps():
            try:
                sentences.append(expander.expand(line.text))
            except PatternError as error:
                raise PatternError(f"theme {theme.phrase!r} of topic {topic!r}: {error}") from None
        else:
            expander.patterns += 1
    marked = " ".join(sentences).replace("'", "’")
    return SampleParagraph(_plain(marked), theme.phrase, marked, equation)


def _plain(marked: str) -> str:
    return marked.replace("_", "").replace("'", "’")
