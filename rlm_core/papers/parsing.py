"""`parse_pdf`: what a PDF parser makes of a paper, as the policy sees it (`noisy`) or read by columns (`columns`)."""

from __future__ import annotations

from pathlib import Path
from typing import Literal
from unicodedata import bidirectional

from rlm_core.files import sha256_file
from rlm_core.papers.layout import Layout, assemble
from rlm_core.papers.problems import PdfProblem
from rlm_core.papers.records import PAGE_BREAK, Paper, Section
from rlm_core.papers.textindex import TextIndex, tokens_of
from rlm_core.papers.textlayer import open_pdf, pdfplumber_version, read_info, read_pages

LAYOUT_VERSION = 2
"""Raised with every change of the layout rules that alters results; part of cache keys."""


def parse_pdf(path: Path | str, mode: Literal["noisy", "columns"] = "noisy", *, id: str | None = None) -> Paper:
    """Read the text layer of a PDF. Raises `PdfProblem` for a file that cannot be used.

    `noisy` pages are pdfplumber's plain `extract_text()`, unmodified: two columns interleave line by line, hyphens and
    running heads stay. `columns` pages are read column by column, without running heads, as paragraphs.
    Title, abstract and section titles come from the layout in both; `noisy` locates the sections in its plain text.
    """
    if mode not in ("noisy", "columns"):
        raise ValueError(f"mode {mode!r} is neither 'noisy' nor 'columns'")
    path = Path(path)
    with open_pdf(path) as pdf:
        info = read_info(pdf)
        plain, boxes, scanned = [], [], 0
        for page in read_pages(pdf, path):
            plain.append(page.plain)
            boxes.append(page.boxes)
            scanned += page.scanned
    check_text(path, plain, scanned)
    layout = assemble(boxes, exact=True, title_hint=info.title)
    noisy = mode == "noisy"
    return Paper(
        id=id or path.stem,
        title=layout.title,
        abstract=layout.abstract,
        pages=tuple(plain) if noisy else layout.pages,
        sections=locate_sections(layout, plain) if noisy else layout.sections,
        paragraphs=() if noisy else layout.paragraphs,
        engine="pdfplumber",
        engine_version=pdfplumber_version(),
        mode=mode,
        sha256=sha256_file(path),
        provenance={"layout": LAYOUT_VERSION},
    )


MIN_LETTERS = 20
MIN_LETTERS_OF_A_SCAN = 200
"""A page: libraries stamp their scans with a line or two, which is no text layer."""


def check_text(path: Path, pages: list[str], scanned: int) -> None:
    """Raise `PdfProblem` where there is no text, where it is only stamps on scans, or where it runs from right to left."""
    letters = sum(char.isalnum() for page in pages for char in page)
    if letters < MIN_LETTERS:
        raise PdfProblem("no-text", path, f"{letters} letters on {len(pages)} page(s)")
    if scanned > 0.5 * len(pages) and letters < MIN_LETTERS_OF_A_SCAN * len(pages):
        detail = f"{scanned} of {len(pages)} pages are images under {letters // len(pages)} letters a page"
        raise PdfProblem("no-text", path, detail)
    leftward = sum(bidirectional(char) in ("R", "AL") for page in pages for char in page)
    if leftward > 0.5 * letters:
        raise PdfProblem("right-to-left", path, f"{leftward} of {letters} letters")


def locate_sections(layout: Layout, plain: list[str]) -> tuple[Section, ...]:
    """The layout's headings found again in plain pages, in order; a heading that is not there is left out."""
    page_of = {p.start: p.page for p in layout.paragraphs}
    indexes = [TextIndex(page) for page in plain]
    page_starts, position = [], 0
    for page in plain:
        page_starts.append(position)
        position += len(page) + len(PAGE_BREAK)
    heads: list[tuple[str, int]] = []
    for section in layout.sections:
        number = page_of[section.start] - 1
        needle = "".join(token for _, token in tokens_of(section.title))
        if needle and (found := _heading_at(indexes[number], needle)) is not None:
            heads.append((section.title, page_starts[number] + found))
    heads.sort(key=lambda head: head[1])
    ends = [*(start for _, start in heads[1:]), max(0, position - len(PAGE_BREAK))][: len(heads)]
    return tuple(Section(title, start, end) for (title, start), end in zip(heads, ends, strict=True))


def _heading_at(index: TextIndex, needle: str) -> int | None:
    """Offset of the heading; one at a line's start is preferred to the same words inside a sentence."""
    places = [index.original(p, p + len(needle))[0] for p in index.find(needle) if index.starts_word(p)]
    at_line_start = [p for p in places if p == 0 or index.text[p - 1] == "\n"]
    return next(iter(at_line_start or places), None)
