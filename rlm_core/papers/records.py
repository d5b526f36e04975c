"""`Paper`: what a PDF parser or an OCR engine made of one PDF, as plain data with known offsets."""

from __future__ import annotations

import dataclasses
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Self

ParagraphKind = Literal[
    "title", "front", "abstract", "heading", "body", "caption", "table", "footnote", "reference", "other"
]
"""`front`: authors, affiliations, key words; `other`: margin notes and what is inside figures. Evidence is `body` only."""

Mode = Literal["noisy", "columns", "ocr"]
PAGE_BREAK = "\n\n"


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph in reading order, its lines joined and hyphenation undone."""

    text: str
    page: int
    """1-based; of its first line, where it runs over to the next page."""
    bbox: tuple[float, float, float, float]
    """(x0, top, x1, bottom) in PDF points from the top left, of its part on `page`."""
    kind: ParagraphKind = "body"
    start: int = -1
    """Offset in the paper's text; -1 where the text is not made of the paragraphs (noisy mode)."""
    section: str = ""
    """Title of the section it stands in; empty before the first."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the paper's text, heading included: `text[start:end]`, half open."""

    title: str
    start: int
    end: int


@dataclass(frozen=True)
class Paper:
    """One paper as read by one engine in one mode."""

    id: str
    title: str = ""
    abstract: str = ""
    pages: tuple[str, ...] = ()
    """Text of each page. In `ocr` and `columns` mode a paragraph that crosses pages lies whole on its first."""
    sections: tuple[Section, ...] = ()
    paragraphs: tuple[Paragraph, ...] = ()
    engine: str = ""
    engine_version: str = ""
    mode: Mode = "noisy"
    sha256: str = ""
    """Of the PDF."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """Settings that shaped the text, e.g. dpi."""

    @cached_property
    def text(self) -> str:
        """All pages, joined by a blank line."""
        return PAGE_BREAK.join(self.pages)

    @cached_property
    def page_starts(self) -> tuple[int, ...]:
        """Offset in `text` of each page's first character."""
        starts, position = [], 0
        for page in self.pages:
            starts.append(position)
            position += len(page) + len(PAGE_BREAK)
        return tuple(starts)

    def page_of(self, offset: int) -> int:
        """The 1-based page that holds the character at `offset`; a page break belongs to the page before it."""
        if not 0 <= offset <= len(self.text):
            raise ValueError(f"paper {self.id!r}: offset {offset} is outside its {len(self.text)} characters")
        return bisect_right(self.page_starts, offset)

    def to_dict(self) -> dict[str, Any]:
        row = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        row["pages"] = list(self.pages)
        row["sections"] = [dataclasses.asdict(s) for s in self.sections]
        row["paragraphs"] = [dataclasses.asdict(p) | {"bbox": list(p.bbox)} for p in self.paragraphs]
        row["provenance"] = dict(self.provenance)
        return row

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Self:
        """Read `to_dict`'s row; every key but `id` may be absent."""
        known = {f.name: row[f.name] for f in dataclasses.fields(cls) if f.name in row}
        known["pages"] = tuple(known.get("pages", ()))
        known["sections"] = tuple(Section(**s) for s in known.get("sections", ()))
        known["paragraphs"] = tuple(_paragraph(p) for p in known.get("paragraphs", ()))
        known["provenance"] = dict(known.get("provenance", {}))
        return cls(**known)


def _paragraph(row: Mapping[str, Any]) -> Paragraph:
    x0, top, x1, bottom = row["bbox"]
    return Paragraph(**{**row, "bbox": (x0, top, x1, bottom)})
