"""The sample library: its papers differ, their themes have exact tiers, and the PDFs look like two-column papers."""

from __future__ import annotations

import difflib
import errno
import itertools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pdfplumber
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm_core.papers.sample import NOTICE, SamplePaper, library_content, theme_papers, write_sample_library
from rlm_core.papers.sample.exhibits import read_figure, read_table
from rlm_core.papers.sample.grammar import Expander, PatternError, deal
from rlm_core.papers.sample.source import TOPIC_KEYS, parse_topic
from rlm_core.records import tier_of


@pytest.fixture(scope="module")
def papers() -> list[SamplePaper]:
    """All 36 papers as text."""
    return library_content(papers_per_topic=6)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    """One paper of each topic, typeset: all six looks."""
    folder = tmp_path_factory.mktemp("sample")
    return folder, write_sample_library(folder, papers_per_topic=1)


def expander(rank: int = 0, **facts: str) -> Expander:
    return Expander("key", rank, f"paper-{rank}", facts, lambda: "[1]")


# --- grammar


def test_a_pattern_fills_its_marks():
    text = expander(site="Hollin Heath").expand(
        "At {site}, <n=12..12> of <0.5..0.5> t [fell|fell] ^; <n> and <3..3> kg."
    )
    assert text == "At Hollin Heath, 12 of 0.5 t fell [1]; 12 and 3 kg."


def test_small_numbers_are_words_unless_a_unit_follows():
    assert expander().expand("<3..3> plots and <3..3> mm. <4..4> more.") == "Three plots and 3 mm. Four more."


def test_brackets_nest_and_may_be_empty():
    assert expander().expand("a [[b|b] c|b c] [|] d") == "a b c d"


@pytest.mark.parametrize("rank", range(6))
def test_linked_brackets_agree(rank: int):
    text = expander(rank).expand("[It|They|We] [=falls|fall|sink] [now|then] and [=stops|stop|cease].")
    # the last bracket is linked to "now|then", of two alternatives
    assert text in {
        f"{who} {when} and {end}."
        for who in ("It falls", "They fall", "We sink")
        for when, end in (("now", "stops"), ("then", "stop"))
    }


@given(st.integers(1, 6), st.integers(0, 5), st.text(max_size=5))
def test_every_run_of_users_gets_every_alternative(size: int, cycle: int, key: str):
    ranks = range(cycle * size, (cycle + 1) * size)
    assert sorted(deal(key, rank, size) for rank in ranks) == list(range(size))


@pytest.mark.parametrize(
    ("pattern", "says"),
    [("a [b|c", "never closed"), ("a b]", "unbalanced"), ("{crop}", "unknown fact"), ("<n> plots", "used before")],
)
def test_a_broken_pattern_says_what_is_wrong(pattern: str, says: str):
    with pytest.raises(PatternError, match=says):
        expander(site="x").expand(pattern)


def test_a_broken_content_file_names_file_and_line():
    with pytest.raises(ValueError, match=r"soil\.txt:2: a sentence before"):
        parse_topic("soil", "== themes\nNo head yet.", "soil.txt")
    with pytest.raises(ValueError, match=r"soil\.txt:1: expected 'key: value'"):
        parse_topic("soil", "no colon", "soil.txt")


def test_a_table_row_of_another_length_is_an_error():
    with pytest.raises(ValueError, match="1 cells under 2 columns"):
        read_table("Caption ; A ; B", ["1"])


def test_an_unknown_figure_kind_is_an_error():
    with pytest.raises(ValueError, match="'pie' is not one of"):
        read_figure("pie ; x ; 0..1 ; y ; 0..1", "caption", "key")


# --- content


def test_counts_beyond_the_content_are_refused():
    with pytest.raises(ValueError, match="topics is 7; the sample library has content for 1 to 6"):
        library_content(topics=7)
    with pytest.raises(ValueError, match="papers_per_topic is 0"):
        library_content(papers_per_topic=0)


def test_a_paper_does_not_depend_on_the_size_of_the_library(papers: list[SamplePaper]):
    small = library_content(topics=2, papers_per_topic=2)
    by_id = {paper.id: paper for paper in papers}
    assert [paper.id for paper in small] == ["soil-1", "soil-2", "perovskite-1", "perovskite-2"]
    assert all(by_id[paper.id] == paper for paper in small)


def test_another_seed_words_the_papers_differently():
    assert library_content(topics=1, seed=1)[0].paragraphs != library_content(topics=1)[0].paragraphs


def test_papers_have_the_size_of_short_articles(papers: list[SamplePaper]):
    assert len(papers) == 36
    for paper in papers:
        words = sum(len(p.text.split()) for p in paper.paragraphs)
        assert 1700 <= words <= 2600, (paper.id, words)
        assert 25 <= len(paper.paragraphs) <= 40, (paper.id, len(paper.paragraphs))
        assert all(250 <= len(p.text) <= 900 for p in paper.paragraphs), paper.id
        assert len(paper.sections) in (7, 8)  # not all have a section on limits
        assert len(paper.references) >= 8
        assert paper.table.rows
        assert paper.figure.caption


def test_no_mark_of_the_grammar_is_printed(papers: list[SamplePaper]):
    for paper in papers:
        for text in (paper.title, paper.abstract, *(p.text for p in paper.paragraphs)):
            # a numeric citation is the only bracket that may remain
            assert not re.search(r"[{}<>|^_%@]|\.\.|\[(?!\d+\])", text), (paper.id, text)
            assert "  " not in text
            assert text[0].isupper() or text[0].isdigit(), (paper.id, text)


def test_no_sentence_repeats_within_a_paper_and_no_paragraph_between_papers(papers: list[SamplePaper]):
    everywhere: dict[str, str] = {}
    for paper in papers:
        sentences = [s for p in paper.paragraphs for s in re.split(r"(?<=[.?!]) (?=[A-Z])", p.text)]
        assert len(sentences) == len(set(sentences)), paper.id
        for paragraph in paper.paragraphs:
            assert everywhere.setdefault(paragraph.text, paper.id) == paper.id
    assert len(everywhere) == sum(len(paper.paragraphs) for paper in papers)


def test_paragraphs_on_one_theme_differ_in_wording(papers: list[SamplePaper]):
    """Not one template with other numbers: without digits, two papers' paragraphs on a theme still differ."""
    groups: dict[str, list[str]] = {}
    for paper in papers:
        for p in paper.paragraphs:
            groups.setdefault(f"{paper.topic}/{p.phrase}", []).append(re.sub(r"[\d.]+", "", p.text))
    ratios = [
        difflib.SequenceMatcher(None, a.split(), b.split(), autojunk=False).ratio()
        for texts in groups.values()
        for a, b in itertools.combinations(texts, 2)
    ]
    assert max(ratios) < 0.95
    assert sum(ratios) / len(ratios) < 0.5


def test_a_phrase_is_found_in_its_own_paragraphs_only(papers: list[SamplePaper]):
    for topic in TOPIC_KEYS:
        paragraphs = [p for paper in papers if paper.topic == topic for p in paper.paragraphs]
        for phrase in {p.phrase for p in paragraphs}:
            for p in paragraphs:
                count = p.text.lower().count(phrase.lower())
                assert (count >= 2) if p.phrase == phrase else (count == 0), (topic, phrase, p.text)


@pytest.mark.parametrize(
    ("papers_per_topic", "least"),
    [(4, {"1": 40, "2": 10, "3-4": 8}), (6, {"1": 40, "2": 15, "3-4": 15, "5+": 5})],
)
def test_every_topic_has_themes_of_every_tier(papers_per_topic: int, least: dict[str, int]):
    themes = theme_papers(library_content(papers_per_topic=papers_per_topic))
    for topic in TOPIC_KEYS:
        tiers = [tier_of(len(ids)) for (name, _), ids in themes.items() if name == topic]
        counts = {tier: tiers.count(tier) for tier in least}
        assert all(counts[tier] >= least[tier] for tier in least), (topic, counts)


def test_truth_lists_every_paragraph_with_its_phrase(papers: list[SamplePaper]):
    rows = papers[0].truth()
    assert [row["paragraph"] for row in rows] == [p.text for p in papers[0].paragraphs]
    assert {row["section"] for row in rows} == {section.title for section in papers[0].sections}


# --- PDFs


def test_the_same_bytes_each_time(library: tuple[Path, list[dict[str, Any]]], tmp_path: Path):
    _, rows = library
    again = write_sample_library(tmp_path, topics=2, papers_per_topic=1)
    assert [row["sha256"] for row in again] == [row["sha256"] for row in rows[:2]]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["perovskite-1.pdf", "soil-1.pdf"]


def test_manifest_rows_describe_the_files(library: tuple[Path, list[dict[str, Any]]]):
    folder, rows = library
    assert [row["id"] for row in rows] == [f"{key}-1" for key in TOPIC_KEYS]
    for row in rows:
        assert set(row) == {"id", "file", "title", "authors", "licence", "topic", "pages", "sha256", "source"}
        assert (row["source"], row["licence"]) == ("sample", "CC0-1.0")
        with pdfplumber.open(folder / row["file"]) as pdf:
            assert len(pdf.pages) == row["pages"]
            assert 3 <= row["pages"] <= 5


@pytest.fixture(scope="module")
def read(library: tuple[Path, list[dict[str, Any]]]) -> dict[str, list[PageRead]]:
    """What pdfplumber finds on each page, by paper id."""
    folder, rows = library
    found = {}
    for row in rows:
        with pdfplumber.open(folder / row["file"]) as pdf:
            found[row["id"]] = [PageRead.of(page) for page in pdf.pages]
    return found


@dataclass
class PageRead:
    top: str
    """The running head."""
    sides: tuple[str, str]
    """Text of the left and the right column."""
    left_ends: list[float]
    """Right ends of the lines of the left column."""
    gutter: int
    """Characters in the gutter, half way down the page."""
    drawn: int
    """Lines, curves and rectangles."""

    @classmethod
    def of(cls, page: Any) -> PageRead:
        middle = page.width / 2
        boxes = [
            (0, 0.06 * page.height, middle, 0.945 * page.height),
            (middle, 0.06 * page.height, page.width, 0.945 * page.height),
        ]
        left, right = (page.within_bbox(box) for box in boxes)
        gutter = page.within_bbox((middle - 6, 0.4 * page.height, middle + 6, 0.7 * page.height))
        return cls(
            top=page.within_bbox((0, 0, page.width, 0.07 * page.height)).extract_text(),
            sides=(left.extract_text(), right.extract_text()),
            left_ends=[line["x1"] for line in left.extract_text_lines()],
            gutter=len(gutter.chars),
            drawn=len(page.curves) + len(page.lines) + len(page.rects),
        )


def test_pages_have_two_justified_hyphenated_columns(read: dict[str, list[PageRead]]):
    for paper_id, pages in read.items():
        second = pages[1]
        assert second.gutter == 0, paper_id
        assert all(len(side.splitlines()) > 30 for side in second.sides), paper_id
        ends = sorted(second.left_ends)
        edge = ends[len(ends) // 2]
        assert sum(abs(x - edge) <= 2.5 for x in ends) > 0.5 * len(ends), f"{paper_id} is not justified"
        hyphens = [h for page in pages for side in page.sides for h in re.findall(r"[a-z]-\n[a-z]", side)]
        assert len(hyphens) >= 5, f"{paper_id} has no hyphenation"


def test_every_part_of_a_paper_is_printed(library: tuple[Path, list[dict[str, Any]]], read: dict[str, list[PageRead]]):
    for paper in library_content(papers_per_topic=1):
        pages = read[paper.id]
        body = "\n".join(side for page in pages for side in page.sides)
        last = paper.sections[-1].title
        for words in ("Table 1.", "Fig. 1.", "References", "1 Introduction", f"{len(paper.sections)} {last}"):
            assert words in body, (paper.id, words)
        assert paper.journal in pages[0].top
        assert paper.journal in pages[1].top
        assert paper.short_title in pages[2].top, paper.id
        assert sum(page.drawn for page in pages) > 20, paper.id
        # body paragraphs, letters only; one that a page, a float or a footnote cuts is not found whole
        letters = re.sub(r"\W", "", body)
        found = sum(re.sub(r"\W", "", p.text) in letters for p in paper.paragraphs)
        assert found >= 0.6 * len(paper.paragraphs), (paper.id, found, len(paper.paragraphs))
        with pdfplumber.open(library[0] / f"{paper.id}.pdf") as pdf:
            assert NOTICE in pdf.pages[0].extract_text()
            assert "Abstract." in pdf.pages[0].extract_text()


def test_nothing_is_left_behind_when_writing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def fail(self: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="No space left"):
        write_sample_library(tmp_path, topics=1, papers_per_topic=1)
    assert not list(tmp_path.iterdir())
