"""Where evidence stands on the page: the boxes of the OCR paragraphs that hold it, and the page as an image."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlm_core.papers.records import Paper
from rlm_core.records import Evidence
from rlm_core.synthesis.words import squeeze

DPI = 110
"""Of the page image: body text is readable at the width of a screen."""
MAX_SIDE = 3000
"""Pixels; a poster is drawn at fewer dpi."""

Box = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Place:
    page: int
    boxes: tuple[Box, ...]
    """(x0, top, x1, bottom) in PDF points from the top left; empty where only the page is known."""


def place_of(evidence: Evidence, clean: Paper | None, parsed: Paper | None) -> Place | None:
    """The paragraph that holds the passage, else those that it holds, else the page where the parsed text has it."""
    wanted = squeeze(evidence.text)
    rows = [(p, squeeze(p.text)) for p in clean.paragraphs] if clean else []
    held = [p for p, text in rows if text and wanted in text] or [
        p for p, text in rows if len(text) > 40 and text in wanted
    ]
    if held:
        first = held[0].page
        boxes = tuple(p.bbox for p in held if p.page == first and p.bbox[2] > p.bbox[0])
        return Place(first, boxes)
    if parsed and evidence.span and 0 <= evidence.span.start <= len(parsed.text):
        return Place(parsed.page_of(evidence.span.start), ())
    return None


def page_size(pdf: Path, page: int) -> tuple[float, float]:
    """Width and height in points of a page (from 1). Raises `ValueError` when the file or the page is not there."""
    with _sheet(pdf, page) as sheet:
        width, height = sheet.get_size()
        return width, height


def page_image(pdf: Path, page: int) -> bytes:
    """The page (from 1) as PNG. Raises `ValueError` when it cannot be drawn."""
    with _sheet(pdf, page) as sheet:
        image = sheet.render(scale=min(DPI / 72, MAX_SIDE / max(sheet.get_size()))).to_pil()
    out = io.BytesIO()
    image.save(out, format="PNG")
    return out.getvalue()


@contextlib.contextmanager
def _sheet(pdf: Path, page: int) -> Iterator[Any]:
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(pdf)
        try:
            yield document[page - 1]
        finally:
            document.close()
    except (pypdfium2.PdfiumError, IndexError, OSError) as error:
        raise ValueError(f"{pdf}: page {page} cannot be drawn ({error})") from error
