"""parse_pdf: the plain text is pdfplumber's own; columns are read apart; every bad file has its kind."""

from __future__ import annotations

import pickle
from pathlib import Path

import pdfplumber
import pdfs
import pytest

from rlm_core.papers import PdfProblem, parse_pdf, textlayer

GOOD = pdfs.make_pdf(pdfs.article(pages=2), title="Barley on drained land, part 1")

BAD = {
    "missing": None,
    "empty": b"",
    "not-a-pdf": b"<html><body>Please log in</body></html>",
    "truncated": GOOD[: len(GOOD) // 2],
    "broken": b"%PDF-1.7\n" + b"\x00garbage" * 500 + b"\nstartxref\n12\n%%EOF\n",
    "encrypted": pdfs.encrypted_pdf(pdfs.article()),
    "no-text": pdfs.image_only_pdf(),
    "no-pages": pdfs.make_pdf([]),
}


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.pdf"
    path.write_bytes(GOOD)
    return path


def test_noisy_pages_are_the_parsers_text_unmodified(good):
    paper = parse_pdf(good)
    with pdfplumber.open(good) as pdf:
        assert paper.pages == tuple(page.extract_text() for page in pdf.pages)
    assert (paper.id, paper.mode, paper.engine) == ("good", "noisy", "pdfplumber")
    assert paper.engine_version.startswith(pdfplumber.__version__)


def test_title_abstract_and_sections_are_found_in_both_modes(good):
    for mode in ("noisy", "columns"):
        paper = parse_pdf(good, mode)
        assert paper.title == "Barley on drained land, part 1"
        assert paper.abstract.startswith("We report trial 1 of barley")
        assert [s.title for s in paper.sections][-3:] == ["4 Introduction", "5 Methods", "6 Results"]
        for section in paper.sections:
            assert paper.text[section.start :].lower().startswith(section.title.lower()[:5])


def test_columns_give_paragraphs_with_page_and_place(good):
    paper = parse_pdf(good, "columns")
    body = [p for p in paper.paragraphs if p.kind == "body"]
    assert [p.text for p in body[:4]] == list(pdfs.PARAGRAPHS)
    assert len(body) == 24
    assert body[0].page == 1 and body[-1].page == 2
    assert all(paper.text[p.start : p.start + len(p.text)] == p.text for p in paper.paragraphs)
    assert all(paper.page_of(p.start) == p.page for p in paper.paragraphs)


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_file_has_its_kind_and_a_remedy(kind, tmp_path):
    path = tmp_path / f"{kind}.pdf"
    if BAD[kind] is not None:
        path.write_bytes(BAD[kind])
    with pytest.raises(PdfProblem) as caught:
        parse_pdf(path)
    problem = caught.value
    assert problem.kind == kind
    assert str(path) in str(problem) and problem.remedy in str(problem)
    again = pickle.loads(pickle.dumps(problem))
    assert (again.kind, str(again)) == (problem.kind, str(problem))


def test_a_page_of_absurd_size_is_refused(good, monkeypatch):
    monkeypatch.setattr(textlayer, "MAX_CHARS_PER_PAGE", 100)
    with pytest.raises(PdfProblem, match=r"too-large \(page 1 has [\d,]+ characters\)"):
        parse_pdf(good)


def test_an_unknown_mode_is_refused(good):
    with pytest.raises(ValueError, match="mode 'fast' is neither 'noisy' nor 'columns'"):
        parse_pdf(good, "fast")


def test_the_sample_library_is_read_as_it_was_written(tmp_path):
    from rlm_core.papers.sample import library_content, write_sample_library

    rows = write_sample_library(tmp_path, topics=3, papers_per_topic=1)
    content = {paper.id: paper for paper in library_content(topics=3, papers_per_topic=1)}
    for row in rows:
        paper = parse_pdf(tmp_path / row["file"], "columns")
        truth = content[row["id"]]
        assert paper.title == truth.title
        wanted = {_letters(p.text) for section in truth.sections for p in section.paragraphs}
        got = {_letters(p.text) for p in paper.paragraphs if p.kind == "body"}
        assert len(wanted & got) >= 0.9 * len(wanted)


def _letters(text: str) -> str:
    return "".join(char for char in text.lower() if char.isascii() and char.isalnum())


@pytest.mark.slow
def test_paragraphs_of_real_papers_agree_with_their_xml(shared_corpus):
    """Share of paragraphs of the publisher's XML that a body paragraph spells with at least 90 % similarity."""
    import xml.etree.ElementTree as ET

    from rapidfuzz.fuzz import ratio

    for name, least in (("jose/jose.00197", 0.95), ("pmc-ocimum/PMC4945999", 0.94), ("pmc-ocimum/PMC6313609", 0.95)):
        root = ET.parse(shared_corpus / f"{name}.jats.xml").getroot()
        texts = ["".join(p.itertext()) for p in root.find(".//body").iter("p")]
        gold = [_letters(t) for t in texts if len(t) >= 100]
        paper = parse_pdf(shared_corpus / f"{name}.pdf", "columns")
        body = [_letters(p.text) for p in paper.paragraphs if p.kind == "body"]
        found = sum(max(ratio(g, b) for b in body) >= 90 for g in gold)
        assert found >= least * len(gold), (name, found, len(gold))


@pytest.mark.parametrize(
    ("matrix", "bbox"),
    [
        ("1 0 0 1 60 782", (60.0, 44.1, 322.4, 64.1)),  # upright, 60 points below the top
        ("0 1 -1 0 60 100", (44.1, 479.6, 64.1, 742.0)),  # runs up from 100 points above the bottom
        ("0 -1 1 0 60 742", (55.9, 100.0, 75.9, 362.4)),  # runs down from 100 points below the top
        ("-1 0 0 -1 460 742", (197.6, 95.9, 460.0, 115.9)),  # upside down
    ],
)
def test_text_that_runs_another_way_is_read_and_its_box_lies_where_the_page_shows_it(matrix, bbox, tmp_path):
    """The title is 262.4 points long and 20 high; its baseline starts at the matrix's last two numbers."""
    path = tmp_path / "turned.pdf"
    path.write_bytes(pdfs.turned_pdf("Barley on drained land, part 1", 20, matrix))
    paper = parse_pdf(path, "columns")
    assert paper.text == "Barley on drained land, part 1"
    assert paper.paragraphs[0].bbox == bbox


def test_a_page_turned_by_its_rotate_entry_is_read(tmp_path):
    path = tmp_path / "rotated.pdf"
    path.write_bytes(pdfs.make_pdf(pdfs.article(), page_entries="/Rotate 90"))
    body = [p.text for p in parse_pdf(path, "columns").paragraphs if p.kind == "body"]
    assert body[:4] == list(pdfs.PARAGRAPHS)


def test_a_page_of_two_hundred_inches_is_read(tmp_path):
    path = tmp_path / "huge.pdf"
    path.write_bytes(pdfs.make_pdf(pdfs.article(), size=(14_400, 14_400)))
    assert parse_pdf(path, "columns").title == "Barley on drained land, part 1"


def test_a_file_that_only_its_owners_password_protects_is_read(tmp_path):
    """Opens without a password; what it forbids (printing, say) is no matter here. Its text is in the clear."""
    path = tmp_path / "owner.pdf"
    path.write_bytes(pdfs.encrypted_pdf([[]], password=""))
    with pytest.raises(PdfProblem, match="no-text"):  # opened and found empty, not refused as encrypted
        parse_pdf(path)


def test_text_from_right_to_left_is_refused_by_name(tmp_path):
    import typst

    path = tmp_path / "hebrew.pdf"
    source = tmp_path / "hebrew.typ"
    source.write_text(
        '#set text(font: "Libertinus Serif", dir: rtl)\n' + "השעורה נזרעה בשבוע הראשון של אפריל בכל החלקות. " * 8
    )
    typst.compile(str(source), output=str(path))
    with pytest.raises(PdfProblem, match=r"right-to-left .*leave it out"):
        parse_pdf(path)


def test_a_scan_with_a_stamp_on_each_page_is_no_text(tmp_path):
    """Half of each page or more is an image, and there are fewer than 200 letters a page."""
    path = tmp_path / "scan.pdf"
    stamp = "Downloaded from an archive on 3 May 1999 by 10.0.0.1"
    path.write_bytes(pdfs.scanned_pdf(stamp, pages=3))
    with pytest.raises(PdfProblem, match=r"no-text \(3 of 3 pages are images under \d+ letters"):
        parse_pdf(path)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_pages(tmp_path):
    """300 pages take at most 24 MiB more than 30: their texts and boxes, without the parser's objects (0.4 MiB a page)."""
    import subprocess
    import sys

    peaks = []
    for pages in (30, 300):
        path = tmp_path / f"{pages}.pdf"
        path.write_bytes(pdfs.make_pdf([pdfs.article()[0][:8]] * pages))
        code = (
            "import sys; from rlm_core.papers import parse_pdf; parse_pdf(sys.argv[1], 'columns')\n"
            "print(next(l for l in open('/proc/self/status') if l.startswith('VmHWM')).split()[1])"
        )
        done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
        peaks.append(int(done.stdout) / 1024)
    assert peaks[1] - peaks[0] < 24
