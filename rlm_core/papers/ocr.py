"""`ocr_pdf`: a paper as an OCR engine reads its page images; the clean text that gold evidence is taken from."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlm_core.files import sha256_file
from rlm_core.papers.engines import EngineError, OcrEngine, make_engine
from rlm_core.papers.layout import PageBoxes, Piece, assemble
from rlm_core.papers.parsing import LAYOUT_VERSION
from rlm_core.papers.problems import PdfProblem, check_file
from rlm_core.papers.records import Paper

if TYPE_CHECKING:
    import numpy as np

MAX_IMAGE_SIDE = 6000
"""Pixels; a larger page (a poster) is rendered at fewer dpi."""


def ocr_pdf(
    path: Path | str,
    engine: str | OcrEngine = "rapidocr",
    dpi: int = 150,
    *,
    surya_url: str | None = None,
    id: str | None = None,
) -> Paper:
    """Read all pages of a PDF as images. Raises `PdfProblem` for the file's faults, `EngineError` for the engine's."""
    path = Path(path)
    reader = make_engine(engine, dpi=dpi, surya_url=surya_url) if isinstance(engine, str) else engine
    num_pages, title = pdf_outline(path)
    pages = [read_page(path, number, reader, dpi) for number in range(1, num_pages + 1)]
    return paper_of(pages, reader, dpi, path=path, title_hint=title, id=id)


@dataclass(frozen=True, slots=True)
class PageJob:
    """One page to read, in another process or on another machine."""

    paper_id: str
    pdf: Path
    number: int
    """1-based."""
    dpi: int
    engine: str
    version: str
    """Of the engine where the work is given out; elsewhere it must be the same."""
    surya_url: str | None = None


def read_job(job: PageJob, pdf: Path) -> dict[str, Any]:
    """The page's boxes as `page_to_row` gives them; `pdf` is the job's, or a copy of it. The engine stays loaded."""
    engine = _loaded(job.engine, job.dpi, job.surya_url)
    if engine.version != job.version:
        raise EngineError(
            f"{job.engine} is {engine.version} on {socket.gethostname()} but {job.version} where the run was started: "
            "install the same version on all machines"
        )
    return page_to_row(read_page(pdf, job.number, engine, job.dpi))


@cache
def _loaded(name: str, dpi: int, surya_url: str | None) -> OcrEngine:
    return make_engine(name, dpi=dpi, surya_url=surya_url)


def paper_of(
    pages: Sequence[PageBoxes], engine: OcrEngine, dpi: int, *, path: Path, title_hint: str = "", id: str | None = None
) -> Paper:
    """The paper that the boxes of its pages make. The PDF's own title counts only where the pages show it too."""
    layout = assemble(pages, exact=False, title_hint=title_hint)
    if not any(page.strip() for page in layout.pages):
        raise PdfProblem("no-text", path, f"{engine.name} found nothing on {len(pages)} page(s)")
    return Paper(
        id=id or path.stem,
        title=layout.title,
        abstract=layout.abstract,
        pages=layout.pages,
        sections=layout.sections,
        paragraphs=layout.paragraphs,
        engine=engine.name,
        engine_version=engine.version,
        mode="ocr",
        sha256=sha256_file(path),
        provenance={"dpi": dpi, "layout": LAYOUT_VERSION, **engine.settings},
    )


def pdf_outline(path: Path) -> tuple[int, str]:
    """Number of pages and the title in the metadata; raises `PdfProblem`."""
    with _open(path) as pdf:
        try:
            title = pdf.get_metadata_value("Title")
        except Exception:  # noqa: BLE001 - a broken title must not keep the pages from being read
            title = ""
        return len(pdf), " ".join((title or "").split())


def read_page(path: Path, number: int, engine: OcrEngine, dpi: int) -> PageBoxes:
    """One page (1-based) as boxes in points."""
    with _open(path) as pdf:
        page = pdf[number - 1]
        width, height = page.get_size()
        scale = min(dpi / 72, MAX_IMAGE_SIDE / max(width, height, 1.0))
        image = _render(page, scale, path, number)
    return PageBoxes(number, width, height, tuple(_scaled(piece, 1 / scale) for piece in engine.read(image)))


def _render(page: Any, scale: float, path: Path, number: int) -> np.ndarray:
    import numpy as np

    try:
        bitmap = page.render(scale=scale, rev_byteorder=True, prefer_bgrx=False)
        image: np.ndarray = bitmap.to_numpy()
    except Exception as error:
        raise PdfProblem("broken", path, f"page {number} cannot be drawn: {error}") from error
    if image.ndim == 2 or image.shape[2] == 1:
        return np.repeat(image.reshape(*image.shape[:2], 1), 3, axis=2)
    return np.ascontiguousarray(image[:, :, :3])


def _scaled(piece: Piece, factor: float) -> Piece:
    x0, top, x1, bottom = (round(v * factor, 2) for v in (piece.x0, piece.top, piece.x1, piece.bottom))
    return Piece(piece.text, x0, top, x1, bottom, round(piece.size * factor, 2), piece.styled, piece.kind)


@contextmanager
def _open(path: Path) -> Iterator[Any]:
    import pypdfium2 as pdfium

    check_file(path)
    try:
        pdf = pdfium.PdfDocument(path)
    except pdfium.PdfiumError as error:
        kind = "encrypted" if "password" in str(error).lower() else "broken"
        raise PdfProblem("encrypted" if kind == "encrypted" else "broken", path, str(error)) from error
    try:
        if len(pdf) == 0:
            raise PdfProblem("no-pages", path)
        yield pdf
    finally:
        pdf.close()


def page_to_row(page: PageBoxes) -> dict[str, Any]:
    """For the cache."""
    pieces = [[p.text, p.x0, p.top, p.x1, p.bottom, p.size, p.styled, p.kind] for p in page.pieces]
    return {"number": page.number, "width": page.width, "height": page.height, "pieces": pieces}


def page_from_row(row: Mapping[str, Any]) -> PageBoxes:
    return PageBoxes(row["number"], row["width"], row["height"], tuple(Piece(*piece) for piece in row["pieces"]))
