"""ocr_pdf: from a page image to a paper; RapidOCR for real on small pages, other engines by their output."""

from __future__ import annotations

import http.server
import json
import threading

import numpy as np
import pdfs
import pytest

from rlm_core.papers import PdfProblem, ocr_pdf
from rlm_core.papers.engines import EngineError, UnreadablePage, make_engine
from rlm_core.papers.engines.base import EngineSilent
from rlm_core.papers.engines.surya import SuryaEngine
from rlm_core.papers.engines.tesseract import read_tsv
from rlm_core.papers.layout import Piece
from rlm_core.papers.ocr import page_from_row, page_to_row, pdf_outline, read_page


class FixedEngine:
    """Sees the same two lines on every page, in pixels; keeps the shapes of the images it was given."""

    name, version = "fixed", "1"

    def __init__(self) -> None:
        self.settings: dict[str, object] = {}
        self.shapes: list[tuple[int, ...]] = []

    def read(self, image: np.ndarray) -> list[Piece]:
        self.shapes.append(image.shape)
        return [
            Piece("A study of barley on wet land", 100, 100, 700, 140, 40),
            Piece("Barley grew.", 100, 200, 300, 220, 20),
        ]


@pytest.fixture
def article(tmp_path):
    path = tmp_path / "barley.pdf"
    path.write_bytes(pdfs.make_pdf(pdfs.article(), title="Barley on drained land, part 1"))
    return path


def test_boxes_come_in_points_whatever_the_dpi(article):
    engine = FixedEngine()
    page = read_page(article, 1, engine, 144)
    assert engine.shapes == [(1684, 1190, 3)]  # 842 x 595 points at 2 pixels a point
    assert (page.width, page.height) == (595, 842)
    assert page.pieces[1] == Piece("Barley grew.", 50, 100, 150, 110, 10)
    assert page_from_row(page_to_row(page)) == page


def test_a_poster_is_drawn_at_fewer_dpi(tmp_path):
    path = tmp_path / "poster.pdf"
    path.write_bytes(pdfs.make_pdf([[(100, 100, 40, "Poster")]], size=(4000, 5000)))
    engine = FixedEngine()
    read_page(path, 1, engine, 300)
    assert engine.shapes == [(6000, 4800, 3)]


def test_the_outline_gives_pages_and_title(article):
    assert pdf_outline(article) == (1, "Barley on drained land, part 1")


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("encrypted", pdfs.encrypted_pdf(pdfs.article())),
        ("not-a-pdf", b"PK\x03\x04"),
        ("empty", b""),
        ("broken", b"%PDF-1.7\n" + b"\x00garbage" * 500 + b"\nstartxref\n12\n%%EOF\n"),
    ],
)
def test_bad_files_have_a_kind(kind, data, tmp_path):
    path = tmp_path / "bad.pdf"
    path.write_bytes(data)
    with pytest.raises(PdfProblem) as caught:
        ocr_pdf(path, FixedEngine())
    assert caught.value.kind == kind


def test_an_engine_that_sees_nothing_is_a_problem_of_the_paper(article):
    engine = FixedEngine()
    engine.read = lambda image: []  # type: ignore[method-assign]
    with pytest.raises(PdfProblem, match="no-text"):
        ocr_pdf(article, engine)


def test_suryas_own_variable_gives_its_address(surya, monkeypatch):
    monkeypatch.setenv("SURYA_INFERENCE_URL", surya.url)
    assert make_engine("surya").version == "datalab-to/surya-ocr-2"


def test_engines_say_what_is_missing(monkeypatch):
    monkeypatch.delenv("SURYA_INFERENCE_URL", raising=False)
    with pytest.raises(EngineError, match="there are rapidocr, tesseract and surya"):
        make_engine("nougat")
    with pytest.raises(EngineError, match=r"set ocr\.surya_url"):
        make_engine("surya")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(EngineError, match="apt-get install tesseract-ocr"):
        make_engine("tesseract")


def test_tesseracts_table_becomes_pieces():
    head = "level\tpage_num\tblock_num\tpar_num\tline_num\tword_num\tleft\ttop\twidth\theight\tconf\ttext"
    rows = [
        "4\t1\t1\t1\t1\t0\t10\t20\t500\t20\t-1\t",
        "5\t1\t1\t1\t1\t1\t10\t20\t60\t20\t96.1\tBarley",
        "5\t1\t1\t1\t1\t2\t78\t21\t50\t20\t95.0\tgrew",
        "5\t1\t1\t1\t1\t3\t400\t20\t80\t20\t91.0\tright",  # a gutter before it
        "5\t1\t1\t1\t2\t1\t10\t50\t40\t20\t90.0\twell",
    ]
    pieces = read_tsv("\n".join([head, *rows]))
    assert [(p.text, p.x0, p.top, p.x1, p.bottom) for p in pieces] == [
        ("Barley grew", 10, 20, 128, 41),
        ("right", 400, 20, 480, 40),
        ("well", 10, 50, 50, 70),
    ]


SURYA_HTML = """
<div data-label="Page-Header" data-bbox="50 20 900 40">Journal of Barley</div>
<div data-label="Section-Header" data-bbox="100 60 900 90"><h1>A study of <i>barley</i></h1></div>
<div data-label="Text" data-bbox="100 95 500 110">Ann Smith</div>
<div data-label="Section-Header" data-bbox="100 120 200 130"><h2>Abstract</h2></div>
<div data-label="Text" data-bbox="100 140 900 200"><p>We grew barley &amp; rye.</p></div>
<div data-label="Section-Header" data-bbox="100 210 200 220"><h2>1 Methods</h2></div>
<div data-label="Text" data-bbox="100 230 480 600"><p>The plots were sown in April and the</p></div>
<div data-label="Figure" data-bbox="500 230 900 400"><img alt="a map"/></div>
<div data-label="Text" data-bbox="500 420 900 500"><p>crop was cut in<br/>August.</p></div>
<div data-label="Caption" data-bbox="500 405 900 415">Figure 1. The plots.</div>
<div data-label="Bibliography" data-bbox="500 600 900 700">[1] Smith, A. (1999)</div>
"""


@pytest.fixture
def surya():
    """A real HTTP server that answers as a model server does, after the faults in `.faults`."""

    class State:
        finish = "stop"

    State.faults, State.bodies = [], []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(200, {"data": [{"id": "datalab-to/surya-ocr-2"}]})

        def do_POST(self) -> None:
            State.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            if State.faults:
                self._send(State.faults.pop(0), {})
            else:
                choice = {"message": {"content": SURYA_HTML}, "finish_reason": State.finish}
                self._send(200, {"choices": [choice]})

        def _send(self, status: int, body: dict) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    State.url = f"http://127.0.0.1:{server.server_port}/v1/"
    yield State
    server.shutdown()
    server.server_close()


def test_surya_reads_a_page_into_labelled_blocks(article, surya):
    surya.faults = [503]
    engine = SuryaEngine(surya.url, wait=lambda seconds: None)
    paper = ocr_pdf(article, engine, 96)
    assert [(p.kind, p.text) for p in paper.paragraphs] == [
        ("title", "A study of barley"),
        ("front", "Ann Smith"),
        ("heading", "Abstract"),
        ("abstract", "We grew barley & rye."),
        ("heading", "1 Methods"),
        ("body", "The plots were sown in April and the crop was cut in August."),
        ("caption", "Figure 1. The plots."),
        ("reference", "[1] Smith, A. (1999)"),
    ]
    assert (paper.title, paper.abstract, paper.engine_version) == (
        "A study of barley",
        "We grew barley & rye.",
        "datalab-to/surya-ocr-2",
    )
    # 0-1000 of a page of 595 x 842 points, within a pixel
    assert paper.paragraphs[0].bbox == pytest.approx((59.5, 50.5, 535.5, 75.8), abs=1)
    image, text = surya.bodies[-1]["messages"][0]["content"]
    assert image["image_url"]["url"].startswith("data:image/png;base64,")
    assert "data-bbox" in text["text"]


def test_surya_faults(article, surya):
    engine = SuryaEngine(surya.url, wait=lambda seconds: None)
    surya.faults = [500] * 4
    with pytest.raises(EngineSilent, match="status 500 after 4 attempts"):
        ocr_pdf(article, engine)
    surya.faults = [401]
    with pytest.raises(EngineError, match=r"status 401.*check ocr\.surya_url") as refusal:
        ocr_pdf(article, engine)
    assert not isinstance(refusal.value, EngineSilent)
    surya.finish = "length"
    with pytest.raises(UnreadablePage, match="cut at 12288 tokens"):
        ocr_pdf(article, engine)
    with pytest.raises(EngineSilent, match="is the surya server up"):
        SuryaEngine("http://127.0.0.1:9/v1", wait=lambda seconds: None)


@pytest.mark.slow
def test_rapidocr_reads_a_page(article):
    paper = ocr_pdf(article, "rapidocr", 150)
    assert (paper.id, paper.mode, paper.engine, paper.title) == (
        "barley",
        "ocr",
        "rapidocr",
        "Barley on drained land, part 1",
    )
    assert paper.abstract.startswith("We report trial 1 of barley")
    assert [s.title for s in paper.sections] == ["Abstract", "1 Introduction", "2 Methods", "3 Results"]
    body = [p.text for p in paper.paragraphs if p.kind == "body"]
    assert body == list(pdfs.PARAGRAPHS) * 3
    assert paper.provenance["dpi"] == 150


@pytest.mark.slow
def test_rapidocr_reads_two_columns_of_the_sample_library_into_paragraphs(tmp_path):
    from rapidfuzz.fuzz import ratio

    from rlm_core.papers.sample import library_content, write_sample_library

    row = write_sample_library(tmp_path, topics=3, papers_per_topic=1)[0]
    engine = make_engine("rapidocr")
    from rlm_core.papers.ocr import paper_of

    path = tmp_path / row["file"]
    paper = paper_of([read_page(path, 1, engine, 150)], engine, 150, path=path)
    truth = {p.id: p for p in library_content(topics=3, papers_per_topic=1)}[row["id"]]
    assert paper.title == truth.title
    gold = [p.text for section in truth.sections for p in section.paragraphs]
    body = [p.text for p in paper.paragraphs if p.kind == "body"][:-1]  # the last one runs on to page 2
    assert len(body) >= 8
    scores = [max(ratio(text, g) for g in gold) for text in body]
    assert sum(score > 95 for score in scores) >= len(body) - 1
