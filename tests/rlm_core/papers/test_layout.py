"""From boxes to paragraphs: gutters, running heads, paragraph breaks, kinds, joined lines."""

from __future__ import annotations

import pytest

from rlm_core.papers.layout import PageBoxes, Piece, assemble
from rlm_core.papers.layout.columns import find_gutter, reading_order
from rlm_core.papers.layout.joining import Words, join_lines
from rlm_core.papers.layout.margins import drop_running_heads
from rlm_core.papers.layout.patterns import CAPTION, CODE_LINE, looks_like_reference

TITLE = [Piece("A study of barley on drained land", 50, 40, 420, 60, 20)]
HEADING = [Piece("1 Introduction", 50, 70, 140, 83, 13, True)]


def column(x: float, width: float, top: float, texts: list[str], *, size: float = 10, pitch: float = 12) -> list[Piece]:
    """Lines from `top` down, each as wide as its text: 50 characters fill the column."""
    pieces = []
    for n, text in enumerate(texts):
        indent = len(text) - len(text.lstrip())
        begin, end = x + width * indent / 50, x + width * min(1.0, len(text) / 50)
        pieces.append(Piece(text.strip(), begin, top + n * pitch, end, top + n * pitch + size, size))
    return pieces


def prose(tag: str, lines: int) -> list[str]:
    """A paragraph: an indented first line in upper case, full lines, a short last line with a full stop."""
    full = [f"{tag}{n} the yield of barley grew with every unit of water"[:50].ljust(50, "r") for n in range(lines)]
    return ["  " + full[0].capitalize()[:48], *full[1:-1], full[-1][:20] + "."]


def page(pieces: list[Piece], number: int = 1) -> PageBoxes:
    return PageBoxes(number, 595, 842, tuple(pieces))


def two_columns(number: int = 1) -> PageBoxes:
    left = column(50, 240, 100, prose("a", 8) + prose("b", 8))
    right = column(305, 240, 100, prose("c", 8) + prose("d", 8))
    return page(left + right, number)


def test_the_gutter_lies_between_the_columns():
    gutter = find_gutter(two_columns().pieces, 50, 545)
    assert gutter is not None
    assert 290 < gutter.x < 305


def test_one_column_has_no_gutter():
    assert find_gutter(page(column(50, 495, 100, prose("a", 20))).pieces, 50, 545) is None


def test_a_table_in_one_column_is_no_gutter():
    cells = [
        Piece(f"{n}.{k}", 60 + 120 * k, 400 + 12 * n, 90 + 120 * k, 410 + 12 * n, 10)
        for n in range(8)
        for k in range(4)
    ]
    text = column(50, 495, 100, prose("a", 20)) + column(50, 495, 520, prose("b", 15))
    assert find_gutter(page(text + cells).pieces, 50, 545) is None


def test_columns_are_read_one_after_the_other():
    lines = reading_order([two_columns()], exact=True)
    assert [line.text.split()[0] for line in lines][1:8] == [f"a{n}" for n in range(1, 8)]
    order = "".join(line.text[0].lower() for line in lines)
    assert order == "a" * 8 + "b" * 8 + "c" * 8 + "d" * 8


def test_a_full_width_block_splits_the_columns_into_bands():
    wide = column(50, 495, 310, ["This figure runs over both columns of the page and parts what is above from below"])
    upper, lower = two_columns(), column(50, 240, 340, prose("e", 6)) + column(305, 240, 340, prose("f", 6))
    lines = reading_order([page([*upper.pieces, *wide, *lower])], exact=True)
    order = "".join(line.text[0].lower() for line in lines)
    assert order == "a" * 8 + "b" * 8 + "c" * 8 + "d" * 8 + "t" + "e" * 6 + "f" * 6


def test_a_margin_of_notes_is_set_apart():
    notes = column(30, 100, 200, [f"DOI 10.1000/note{n}" for n in range(6)])
    lines = reading_order([page(column(160, 390, 100, prose("a", 30)) + notes)], exact=True)
    assert [line.narrow for line in lines] == [False] * 30 + [True] * 6


def test_running_heads_and_page_numbers_go():
    pages = []
    for number in range(1, 5):
        head = Piece(f"Journal of Barley, Vol. 3, page {number}", 50, 30, 250, 40, 8)
        foot = Piece(str(number), 290, 810, 300, 820, 9)
        pages.append(page([head, *two_columns().pieces, foot], number))
    for before, after in zip(pages, drop_running_heads(pages), strict=True):
        assert len(before.pieces) - len(after.pieces) == 2
        assert not any("Journal" in p.text or p.text.isdigit() for p in after.pieces)


def test_a_head_on_one_page_only_goes_if_it_stands_apart_and_is_not_on_the_first():
    head = Piece("Smith et al.", 250, 30, 320, 40, 9)
    first, second = page([head, *two_columns().pieces]), page([head, *two_columns().pieces], 2)
    assert len(drop_running_heads([first])[0].pieces) == len(first.pieces)
    other = page(list(two_columns().pieces), 1)
    assert len(drop_running_heads([other, second])[1].pieces) == len(second.pieces) - 1


@pytest.mark.parametrize("exact", [True, False])
def test_paragraphs_end_where_a_short_line_or_an_indent_says_so(exact):
    layout = assemble([page([*TITLE, *HEADING, *two_columns().pieces])], exact=exact)
    body = [p for p in layout.paragraphs if p.kind == "body"]
    assert [p.text[0].lower() for p in body] == ["a", "b", "c", "d"]
    assert body[0].section == "1 Introduction"
    assert layout.pages[0][body[1].start :].startswith("B0 the")
    assert body[2].bbox == (305.0, 100.0, 545.0, 194.0)  # 7 * 12 + 10 high


def test_a_paragraph_runs_on_over_the_column_and_the_page():
    start = prose("a", 8)[:-1]  # its last line is full and ends without a full stop
    going_on = ["and the rest of it stands in the second column of", "the page and ends here."]
    one = page(
        [
            *TITLE,
            *HEADING,
            *column(50, 240, 100, start + prose("x", 8)[1:-1]),
            *column(305, 240, 100, going_on + prose("c", 12)),
        ]
    )
    texts = [p.text for p in assemble([one], exact=True).paragraphs if p.kind == "body"]
    assert any("second column of the page and ends here." in t and "a1" in t for t in texts)


def test_kinds():
    rows = [
        *[Piece("A study of barley on drained land", 50, 60, 400, 80, 20)],
        *column(50, 495, 90, ["Ann Smith, University of Fields"]),
        *[Piece("Abstract", 50, 120, 100, 132, 12, True)],
        *column(50, 495, 136, ["We grew barley on land with drains and on land without any of them for", "six years."]),
        *[Piece("1 Methods", 50, 190, 120, 202, 12, True)],
        *column(50, 495, 206, prose("a", 10)),
        *column(50, 495, 340, ["Table 1: Yields of six years in tonnes."], size=9),
        *[
            Piece(f"{n}.5", 60 + 100 * n, 360 + 12 * k, 80 + 100 * n, 370 + 12 * k, 9)
            for n in range(4)
            for k in range(3)
        ],
        *[Piece("References", 50, 420, 120, 432, 12, True)],
        *column(50, 495, 440, ["[1] Smith, A., Jones, B.: On barley. Field J. 12, 34-56 (1999)."]),
    ]
    kinds = [p.kind for p in assemble([page(rows)], exact=True).paragraphs]
    assert kinds[:6] == ["title", "front", "heading", "abstract", "heading", "body"]
    assert kinds[6] == "caption"
    assert kinds[-2:] == ["heading", "reference"]
    assert set(kinds[7:-2]) <= {"table", "other"}


def test_sections_cover_the_text_from_heading_to_heading():
    layout = assemble(
        [page([*TITLE, Piece("1 Methods", 50, 70, 120, 83, 13, True), *two_columns().pieces])], exact=True
    )
    (section,) = layout.sections
    assert (section.title, section.start, section.end) == (
        "1 Methods",
        layout.pages[0].index("1 Methods"),
        len(layout.pages[0]),
    )


@pytest.mark.parametrize(
    ("lines", "joined"),
    [
        (["the drain-", "age of land"], "the drainage of land"),
        (["a well-", "known soil"], "a well-known soil"),  # spelt so elsewhere
        (["the Smith-", "Jones index"], "the Smith-Jones index"),  # a name
        (["pages 3–", "7 of it"], "pages 3–7 of it"),
        (["an eﬃcient", "ﬁeld"], "an efficient field"),
        (["so  much", "", " space "], "so much space"),
    ],
)
def test_lines_are_joined(lines, joined):
    assert join_lines(lines, Words(["it is a well-known fact", "the drainage is here"])) == joined


@pytest.mark.parametrize(
    ("text", "is_caption"),
    [
        ("Figure 3. Yields", True),
        ("Fig. 12: x", True),
        ("TABLE II. Soils", True),
        ("Figure 3 shows that", True),
        ("Figures are", False),
    ],
)
def test_caption_marks(text, is_caption):
    assert bool(CAPTION.match(text)) is is_caption


def test_references_are_known_by_their_look():
    assert looks_like_reference("12. Hua L, Qi WY, Hussain SH. On plants. Steroids 2012;77:811-18. doi:10.1016/x")
    assert not looks_like_reference("Barley was grown by Smith A. in 1999 on twelve plots: it did well.")


def test_pages_without_text_give_an_empty_layout():
    layout = assemble([page([])], exact=True)
    assert (layout.title, layout.paragraphs, layout.pages) == ("", (), ("",))


SPRINGER_TITLE = [
    Piece("Detection of genetic variation in barley using short", 50, 30, 440, 46, 16),
    Piece("and long markers", 50, 48, 180, 64, 16),
]


@pytest.mark.parametrize("exact", [True, False])
def test_a_title_that_the_hint_spells_is_whole(exact):
    """The first line alone is already 85 % like the hint; entities in metadata are what the print shows."""
    hint = "Detection of genetic variation in barley using short and&#x20;long markers"
    layout = assemble([page([*SPRINGER_TITLE, *HEADING, *two_columns().pieces])], exact=exact, title_hint=hint)
    assert layout.title == "Detection of genetic variation in barley using short and long markers"


def test_authors_in_slightly_smaller_print_are_not_the_title():
    rows = [Piece("Effects of two herbs on barley growth", 50, 40, 400, 56, 16, True)]
    rows += [Piece("Ann Mohanty*†, Bo Singh Arya† and Cy Kumar Gupta†", 50, 60, 400, 75, 15)]
    layout = assemble([page([*rows, *HEADING, *two_columns().pieces])], exact=True)
    assert layout.title == "Effects of two herbs on barley growth"


@pytest.mark.parametrize("exact", [True, False])
def test_a_heading_in_the_print_of_the_text_is_told_by_the_empty_lines_around_it(exact):
    """The heading stands 25 points below and above text whose lines are 12 apart."""
    left = column(50, 240, 100, prose("a", 8)) + column(50, 240, 209, ["Plant material and DNA"])
    left += column(50, 240, 234, prose("b", 8)) + column(50, 240, 330, prose("c", 8))
    right = column(305, 240, 100, prose("d", 20))
    layout = assemble([page([*TITLE, *HEADING, *left, *right])], exact=exact)
    assert "Plant material and DNA" in [s.title for s in layout.sections]
    assert [p.section for p in layout.paragraphs if p.text.startswith("B0")] == ["Plant material and DNA"]


def test_a_short_paragraph_among_spaced_paragraphs_is_no_heading():
    rows, top = [], 100.0
    for tag, lines in (("a", 5), ("b", 5), ("c", 5), ("d", 5)):
        rows += column(50, 495, top, prose(tag, lines))
        top += 12 * lines + 13
        rows += column(50, 495, top, [f"So it was in year {tag}"]) if tag == "b" else []
        top += 25 if tag == "b" else 0
    layout = assemble([page([*TITLE, *HEADING, *rows])], exact=True)
    assert [s.title for s in layout.sections] == ["1 Introduction"]


def test_a_numbered_heading_on_its_paragraphs_line_begins_a_section():
    first = "2.1. Search Strategies. Studies of barley were found by hand"
    rows = column(50, 495, 100, [first, *prose("a", 4)[1:]])
    layout = assemble([page([*TITLE, *HEADING, *rows])], exact=True)
    assert [s.title for s in layout.sections] == ["1 Introduction", "2.1. Search Strategies"]
    paragraph = next(p for p in layout.paragraphs if p.kind == "body")
    assert paragraph.section == "2.1. Search Strategies" and paragraph.text.startswith("2.1. Search")
    assert layout.sections[1].start == paragraph.start


def test_code_is_not_prose():
    code = ["from sktime.datasets import load_airline", "# load the data", "y = load_airline()", "fit(y, fh=[1, 2, 3])"]
    rows = column(50, 495, 100, prose("a", 6)) + column(60, 495, 190, code) + column(50, 495, 260, prose("b", 6))
    layout = assemble([page([*TITLE, *HEADING, *rows])], exact=False)
    assert [p.kind for p in layout.paragraphs if "sktime" in p.text] == ["other"]
    assert [p.text[0] for p in layout.paragraphs if p.kind == "body"] == ["A", "B"]


@pytest.mark.parametrize(
    ("line", "is_code"),
    [
        ("import numpy as np", True),
        ("def fit(self, y):", True),
        ("samples = prepare(seq_dir)", True),
        ('benchmark.run("result.csv")', True),
        ('"gatk",', True),
        ("return Hello", True),
        ("from the fields and imported later", False),
        ("The yield (in tonnes) was 3.", False),
        ("class of 1990, who returned", False),
        ("# of plots", True),
        ("p = 0.05 was the level.", True),  # one line; a block needs half of its lines
    ],
)
def test_lines_of_code(line, is_code):
    assert bool(CODE_LINE.match(line)) is is_code


def test_cells_that_fill_no_line_are_not_prose():
    cells = ["Parts used of each", "Approx. yield of all", "per 100 gm of dry"]
    rows = column(50, 495, 100, prose("a", 6)) + column(60, 495, 200, cells) + column(50, 495, 270, prose("b", 6))
    layout = assemble([page([*TITLE, *HEADING, *rows])], exact=True)
    assert [p.kind for p in layout.paragraphs if "dry" in p.text] == ["other"]


def test_a_caption_after_the_labels_of_its_parts_is_a_caption():
    labels = [Piece(f"({c})", 100 + 150 * n, 200, 115 + 150 * n, 210, 10) for n, c in enumerate("abc")]
    caption = column(50, 495, 213, ["Figure 3. The splits used for the three data sets in bl", "ue."])
    rows = column(50, 495, 100, prose("a", 6)) + labels + caption + column(50, 495, 260, prose("b", 6))
    layout = assemble([page([*TITLE, *HEADING, *rows])], exact=True)
    assert [p.kind for p in layout.paragraphs if "splits" in p.text] == ["caption"]


def test_a_line_of_code_words_in_smaller_print_does_not_end_its_sentence():
    """The third line is set in 8.5 points instead of 10; a footnote, at the same distance, is not taken in."""
    lines = column(
        50, 495, 100, ["  " + "The partial pipeline is made of steps that a person".ljust(48, "r"), "b" * 50]
    )
    code = column(50, 495, 124, ["n" * 50], size=8.5)
    after = column(50, 495, 136, ["and its rest stands in the print of the text."])
    layout = assemble(
        [page([*TITLE, *HEADING, *lines, *code, *after, *column(50, 495, 190, prose("c", 12))])], exact=True
    )
    (paragraph,) = [p for p in layout.paragraphs if p.text.startswith("The partial")]
    assert paragraph.text.endswith("nnn and its rest stands in the print of the text.")
