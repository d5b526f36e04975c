"""The text layer of a PDF, page by page: pdfplumber's plain text, and its words as boxes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlm_core.papers.layout import PageBoxes, Piece
from rlm_core.papers.layout.turning import Turn, turn_box
from rlm_core.papers.problems import PdfProblem, check_file

_STYLED = re.compile(r"bold|black|heavy|italic|oblique|-bd|-it\b|slant|cmb|cmti", re.IGNORECASE)
_NAMELESS = re.compile(r"^(?:[A-Z]{6}\+)?(?:TT[0-9A-F]{3,5}o\d\d|TT\d+|F\d+|T\d_\d|C\d_\d)$")
MAX_CHARS_PER_PAGE = 400_000
"""A page with more characters is a drawing made of text; reading it would take minutes and gigabytes."""


@dataclass(frozen=True, slots=True)
class PageText:
    """One page: the plain text as a parser gives it, and the boxes."""

    plain: str
    boxes: PageBoxes
    scanned: bool = False
    """One image covers half of the page or more."""


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
            empty = PageBoxes(page.page_number, float(page.width), float(page.height), ())
            yield PageText(plain, _boxes(page) if boxes else empty, _is_scanned(page))
        except PdfProblem:
            raise
        except MemoryError:
            raise PdfProblem("too-large", path, f"page {page.page_number} does not fit into memory") from None
        except Exception as error:
            raise PdfProblem("broken", path, f"page {page.page_number}: {_brief(error)}") from error
        finally:
            page.close()


def _is_scanned(page: Any) -> bool:
    areas = [(image["x1"] - image["x0"]) * (image["bottom"] - image["top"]) for image in page.images]
    return max(areas, default=0.0) >= 0.5 * float(page.width) * float(page.height)


def _brief(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:200].rstrip(": ")


def _boxes(page: Any) -> PageBoxes:
    """Words that run the way most letters of the page do, joined to pieces where the gap is under one font size."""
    from pdfplumber.utils import extract_words

    chars = page.chars
    turns = Counter(_turn(char["matrix"]) for char in chars)
    turn = turns.most_common(1)[0][0] if turns else 0
    left, top = float(page.bbox[0]), float(page.bbox[1])
    width, height = float(page.width), float(page.height)
    along = [_turned(c, turn, left, top, width, height) for c in chars if _turn(c["matrix"]) == turn]
    words = extract_words(along, x_tolerance_ratio=0.15, y_tolerance=2, return_chars=True)
    fonts = Counter(char["fontname"] for char in along)
    usual = fonts.most_common(1)[0][0] if fonts else ""
    runs: list[list[dict[str, Any]]] = []
    for word in words:
        word["size"] = _size(word["chars"])
        if runs and _adjoins(runs[-1][-1], word):
            runs[-1].append(word)
        else:
            runs.append([word])
    pieces = tuple(_piece(run, usual) for run in runs)
    if turn in (90, 270):
        width, height = height, width
    return PageBoxes(page.page_number, width, height, pieces, turn)


def _turn(matrix: Sequence[float]) -> Turn:
    """By how many degrees a letter must be turned clockwise to stand upright, from its matrix (PDF 32000, 8.3.3)."""
    a, b = matrix[0], matrix[1]
    if abs(b) > abs(a):
        return 90 if b > 0 else 270
    return 180 if a < 0 and matrix[3] < 0 else 0


def _turned(
    char: Mapping[str, Any], turn: Turn, left: float, top: float, width: float, height: float
) -> dict[str, Any]:
    """The letter in points from the page's own corner, upright."""
    box = (char["x0"] - left, char["top"] - top, char["x1"] - left, char["bottom"] - top)
    x0, above, x1, below = turn_box(box, turn, width, height)
    return {**char, "x0": x0, "top": above, "x1": x1, "bottom": below, "doctop": above, "upright": True}


def _size(chars: Sequence[Mapping[str, Any]]) -> float:
    """The size that half of the letters do not exceed: code or a raised number in a line does not change it."""
    sizes = sorted(char["size"] for char in chars)
    return float(round(sizes[len(sizes) // 2], 1))


def _adjoins(last: Mapping[str, Any], word: Mapping[str, Any]) -> bool:
    gap = word["x0"] - last["x1"]
    overlap = min(last["bottom"], word["bottom"]) - max(last["top"], word["top"])
    lower = min(last["bottom"] - last["top"], word["bottom"] - word["top"])
    return bool(overlap > 0.4 * lower and -2 < gap < 0.95 * max(last["size"], word["size"]))


def _piece(run: Sequence[Mapping[str, Any]], usual_font: str) -> Piece:
    chars = [char for word in run for char in word["chars"]]
    longest = max(run, key=lambda word: len(word["text"]))
    return Piece(
        text=" ".join(word["text"] for word in run),
        x0=run[0]["x0"],
        top=longest["top"],
        x1=run[-1]["x1"],
        bottom=longest["bottom"],
        size=_size(chars),
        styled=all(2 * sum(_styled(c["fontname"], usual_font) for c in w["chars"]) > len(w["chars"]) for w in run),
    )


def _styled(font: str, usual: str) -> bool:
    """By its name; of fonts without one, as some programs write them, any but the page's usual is."""
    return bool(_STYLED.search(font)) or (font != usual and bool(_NAMELESS.match(font)))
