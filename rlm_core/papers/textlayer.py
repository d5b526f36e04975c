"""The text layer of a PDF, page by page: pdfplumber's plain text, and its words as boxes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlm_core.papers.layout import PageBoxes, Piece
from rlm_core.papers.problems import PdfProblem, check_file

_STYLED = re.compile(r"bold|black|heavy|italic|oblique|-bd|-it\b|slant|cmb|cmti", re.IGNORECASE)
MAX_CHARS_PER_PAGE = 400_000
"""A page with more characters is a drawing made of text; reading it would take minutes and gigabytes."""


@dataclass(frozen=True, slots=True)
class PageText:
    """One page: the plain text as a parser gives it, and the boxes."""

    plain: str
    boxes: PageBoxes


@dataclass(frozen=True, slots=True)
class PdfInfo:
    num_pages: int
    title: str
    """As the PDF's metadata say; empty or wrong in many files."""


def pdfplumber_version() -> str:
    from importlib.metadata import version

    return f"{version('pdfplumber')}+pdfminer.six-{version('pdfminer.six')}"


def open_pdf(path: Path) -> Any:
    """Open with pdfplumber; raises `PdfProblem` for whatever keeps it from being read."""
    import pdfplumber
    from pdfminer.pdfdocument import PDFPasswordIncorrect

    check_file(path)
    try:
        pdf = pdfplumber.open(path)
        num_pages = len(pdf.pages)
    except Exception as error:
        causes = (error, *getattr(error, "args", ()))
        if any(isinstance(cause, PDFPasswordIncorrect) for cause in causes):
            raise PdfProblem("encrypted", path) from None
        raise PdfProblem("broken", path, _brief(error)) from error
    if num_pages == 0:
        pdf.close()
        raise PdfProblem("no-pages", path)
    return pdf


def read_info(pdf: Any) -> PdfInfo:
    title = (pdf.metadata or {}).get("Title")
    return PdfInfo(len(pdf.pages), " ".join(title.split()) if isinstance(title, str) else "")


def read_pages(pdf: Any, path: Path, *, boxes: bool = True) -> Iterator[PageText]:
    """Read pages one at a time and free each one's objects, so that memory is bounded by the largest page."""
    for page in pdf.pages:
        try:
            if len(page.chars) > MAX_CHARS_PER_PAGE:
                raise PdfProblem("too-large", path, f"page {page.page_number} has {len(page.chars):,} characters")
            plain = page.extract_text() or ""
            yield PageText(plain, _boxes(page) if boxes else PageBoxes(page.page_number, page.width, page.height, ()))
        except PdfProblem:
            raise
        except Exception as error:
            raise PdfProblem("broken", path, f"page {page.page_number}: {_brief(error)}") from error
        finally:
            page.close()


def _brief(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:200].rstrip(": ")


def _boxes(page: Any) -> PageBoxes:
    """Upright words, joined to pieces where the gap between them is under one font size."""
    upright = page.filter(lambda obj: obj.get("object_type") != "char" or obj.get("upright", True))
    words = upright.extract_words(x_tolerance_ratio=0.15, y_tolerance=2, return_chars=True)
    left, top = float(page.bbox[0]), float(page.bbox[1])
    pieces: list[Piece] = []
    for word in words:
        sizes = sorted(char["size"] for char in word["chars"])
        styled = sum(bool(_STYLED.search(char["fontname"])) for char in word["chars"])
        piece = Piece(
            text=word["text"],
            x0=word["x0"] - left,
            top=word["top"] - top,
            x1=word["x1"] - left,
            bottom=word["bottom"] - top,
            size=round(sizes[len(sizes) // 2], 1),
            styled=2 * styled > len(word["chars"]),
        )
        if pieces and _adjoins(pieces[-1], piece):
            pieces[-1] = _append(pieces[-1], piece)
        else:
            pieces.append(piece)
    return PageBoxes(page.page_number, float(page.width), float(page.height), tuple(pieces))


def _adjoins(last: Piece, piece: Piece) -> bool:
    gap = piece.x0 - last.x1
    overlap = min(last.bottom, piece.bottom) - max(last.top, piece.top)
    return overlap > 0.4 * min(last.bottom - last.top, piece.bottom - piece.top) and -2 < gap < 0.95 * max(
        last.size, piece.size
    )


def _append(last: Piece, piece: Piece) -> Piece:
    longer = last if len(last.text) >= len(piece.text) else piece
    return Piece(
        text=f"{last.text} {piece.text}",
        x0=last.x0,
        top=min(last.top, piece.top) if longer is last else piece.top,
        x1=piece.x1,
        bottom=max(last.bottom, piece.bottom) if longer is last else piece.bottom,
        size=longer.size,
        styled=last.styled and piece.styled,
    )
