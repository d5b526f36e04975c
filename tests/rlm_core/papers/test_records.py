"""Paper, its pages and offsets; the library and the context of a query."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from rlm_core.papers import Paper, Paragraph, Section, attach_context, load_library
from rlm_core.records import Query

PAPER = Paper(
    id="p1",
    title="On barley",
    abstract="Barley grows.",
    pages=("First page", "", "Third"),
    sections=(Section("1 Intro", 0, 17),),
    paragraphs=(Paragraph("First page", 1, (1.0, 2.0, 3.0, 4.0), "body", 0, "1 Intro"),),
    engine="rapidocr",
    engine_version="3.10.0",
    mode="ocr",
    provenance={"dpi": 150},
)


def test_text_joins_pages_and_every_offset_knows_its_page():
    assert PAPER.text == "First page\n\n\n\nThird"
    #                     0..9 page 1, 10-11 break, 12 page 2 (empty), 12-13 break, 14.. page 3
    assert PAPER.page_starts == (0, 12, 14)
    assert [PAPER.page_of(n) for n in (0, 9, 11, 12, 13, 14, 19)] == [1, 1, 1, 2, 2, 3, 3]
    with pytest.raises(ValueError, match="offset 20 is outside its 19 characters"):
        PAPER.page_of(20)


def test_a_paper_survives_json():
    assert Paper.from_dict(json.loads(json.dumps(PAPER.to_dict()))) == PAPER
    assert Paper.from_dict({"id": "x"}) == Paper("x")


def test_a_library_is_a_folder_of_papers(tmp_path):
    for name in ("b", "a"):
        (tmp_path / f"{name}.json").write_text(json.dumps(Paper(name, pages=("text",)).to_dict()))
    assert list(load_library(tmp_path)) == ["a", "b"]


def test_a_file_that_is_no_paper_is_named(tmp_path):
    (tmp_path / "odd.json").write_text("[1]")
    with pytest.raises(ValueError, match=r"odd\.json: not a paper"):
        load_library(tmp_path)
    with pytest.raises(ValueError, match="no such folder"):
        load_library(tmp_path / "missing")


def test_a_query_gets_its_papers_only():
    query = attach_context(Query("q", "Does barley grow?", paper_ids=("p1",)), {"p1": PAPER, "p2": Paper("p2")})
    assert query.context == {"p1": {"title": "On barley", "abstract": "Barley grows.", "text": PAPER.text}}
    with pytest.raises(ValueError, match=r"query 'q' needs the paper\(s\) p3"):
        attach_context(Query("q", "?", paper_ids=("p3",)), {"p1": PAPER})


def test_importing_the_package_loads_nothing_heavy():
    code = (
        "import sys, rlm_core.papers as p; from rlm_core.papers import Paper, make_tools; "
        "assert not {'numpy', 'pdfplumber', 'sklearn', 'pypdfium2', 'rapidocr', 'cv2'} & set(sys.modules); "
        "assert callable(p.parse_pdf) and callable(p.ocr_pdf)\n"
        "try: p.nothing\nexcept AttributeError as error: assert 'nothing' in str(error)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
