"""Papers that are text already: no PDF stands behind them, so parse and OCR hand them on as they are."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rlm_core.files import content_key, read_json
from rlm_core.papers.records import PAGE_BREAK, Mode, Paper, Paragraph, ParagraphKind, Section

ENGINE = "text"
VERSION = "1"
PAGE_CHARS = 4000
"""About what a page holds; a page ends with a paragraph."""
_NO_PLACE = (0.0, 0.0, 0.0, 0.0)


def text_paper(id: str, title: str, abstract: str, sections: Iterable[tuple[str, Iterable[str]]]) -> Paper:
    """A paper of titled sections of paragraphs; its text holds title, abstract, headings and paragraphs, a blank line between.

    >>> text_paper("p", "On rye", "", [("Results", ["It grew."])]).text
    'On rye\\n\\nResults\\n\\nIt grew.'
    """
    blocks: list[tuple[ParagraphKind, str, str]] = [("title", "", title), ("abstract", "Abstract", abstract)]
    for heading, paragraphs in sections:
        blocks.append(("heading", heading, heading))
        blocks += [("body", heading, text) for text in paragraphs]
    pages: list[list[str]] = [[]]
    made: list[Paragraph] = []
    parts: list[Section] = []
    position = 0
    for kind, section, text in ((kind, section, _tidy(text)) for kind, section, text in blocks):
        if not text:
            continue
        if sum(map(len, pages[-1])) >= PAGE_CHARS:
            pages.append([])
        pages[-1].append(text)
        if kind == "heading":
            if parts:
                parts[-1] = dataclasses.replace(parts[-1], end=position)
            parts.append(Section(text, position, position))
        made.append(Paragraph(text, len(pages), _NO_PLACE, kind, position, _tidy(section)))
        position += len(text) + len(PAGE_BREAK)
    if parts:
        parts[-1] = dataclasses.replace(parts[-1], end=position - len(PAGE_BREAK))
    return Paper(
        id=id,
        title=_tidy(title),
        abstract=_tidy(abstract),
        pages=tuple(PAGE_BREAK.join(page) for page in pages if page),
        sections=tuple(parts),
        paragraphs=tuple(made),
        engine=ENGINE,
        engine_version=VERSION,
        mode="ocr",
        sha256=content_key(*(text for _, _, text in blocks)),
    )


def is_text(row: Mapping[str, Any]) -> bool:
    """A row of the manifest of papers that names a text rather than a PDF."""
    return str(row["file"]).endswith(".json")


def read_text_paper(path: Path) -> Paper:
    """A paper as `text_paper` made it, from its file; raises `ValueError` for anything else."""
    row = read_json(path)
    if not isinstance(row, dict) or row.get("engine") != ENGINE or not row.get("pages") or not row.get("paragraphs"):
        raise ValueError("not a paper as `rlm-forge queries import` writes it")
    return Paper.from_dict(row)


def as_view(paper: Paper, mode: Mode) -> dict[str, Any]:
    """The row of a text paper among what parse ("noisy") or OCR ("ocr") read; both hold the same text."""
    return dataclasses.replace(paper, mode=mode).to_dict()


def _tidy(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()
