"""Typeset the sample library as PDFs: A4, two columns, hyphenated, the same bytes each time."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from pathlib import Path
from typing import Any

from rlm_core.files import write_bytes
from rlm_core.papers.sample.content import SamplePaper, library_content
from rlm_core.papers.sample.source import TOPIC_KEYS

LICENCE = "CC0-1.0"
NOTICE = "Sample paper of the rlm-forge project · invented data · CC0 1.0"
_TEMPLATE = Path(__file__).parent / "paper.typ"
_CREATED = 1_735_689_600
"""2025-01-01T00:00:00Z, the creation date in every PDF: a date of the run would change the bytes."""

_LOOKS = {
    # topic: font, size in points, abstract across both columns, figure of even papers across both columns
    "soil": ("Libertinus Serif", 9.7, True, False),
    "perovskite": ("New Computer Modern", 9.4, False, False),
    "sleep": ("Libertinus Serif", 9.6, False, True),
    "coral": ("New Computer Modern", 9.2, True, False),
    "bridge": ("Libertinus Serif", 9.6, False, True),
    "cheese": ("New Computer Modern", 9.2, True, True),
}
"""Only fonts that are embedded in the `typst` wheel: a system font would change the bytes from machine to machine."""


def write_sample_library(
    folder: Path, *, topics: int = len(TOPIC_KEYS), papers_per_topic: int = 4, seed: int = 0
) -> list[dict[str, Any]]:
    """Write `folder/ID.pdf` for every sample paper and return the manifest rows, in the order of the papers.

    A row has id, file, title, authors, licence, topic, pages, sha256 and source="sample". Every file is written
    under a temporary name and renamed. The same arguments give the same bytes. Raises `ValueError` for counts that
    the library has no content for.
    """
    import pypdfium2
    import typst

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    template = _TEMPLATE.read_bytes()
    compiler = typst.Compiler(template, ignore_system_fonts=True)
    rows = []
    for paper in library_content(topics=topics, papers_per_topic=papers_per_topic, seed=seed):
        pdf = compiler.compile(
            template, format="pdf", sys_inputs={"paper": json.dumps(_layout(paper))}, timestamp=_CREATED, pdf_tags=False
        )
        if not isinstance(pdf, bytes):
            raise RuntimeError(f"typst gave {type(pdf).__name__} for {paper.id}, expected the bytes of one PDF")
        write_bytes(folder / f"{paper.id}.pdf", pdf)
        document = pypdfium2.PdfDocument(pdf)
        rows.append(
            {
                "id": paper.id,
                "file": f"{paper.id}.pdf",
                "title": paper.title,
                "authors": list(paper.authors),
                "licence": LICENCE,
                "topic": paper.topic,
                "pages": len(document),
                "sha256": hashlib.sha256(pdf).hexdigest(),
                "source": "sample",
            }
        )
        document.close()
    return rows


def _layout(paper: SamplePaper) -> dict[str, Any]:
    """What `paper.typ` reads: the paper as JSON, italics as runs, and the topic's look."""
    font, size, wide_abstract, wide_figure = _LOOKS[paper.topic]
    sections = [
        {
            "title": section.title,
            "paragraphs": [{"runs": _runs(p.marked), "equation": p.equation} for p in section.paragraphs],
        }
        for section in paper.sections
    ]
    results = max(range(len(sections)), key=lambda i: len(sections[i]["paragraphs"]) if i > 1 else 0)
    return {
        "title": paper.title,
        "short_title": paper.short_title,
        "authors": list(paper.authors),
        "affiliation": paper.affiliation,
        "journal": paper.journal,
        "issue": f"Vol. {10 + TOPIC_KEYS.index(paper.topic)}, No. {paper.number}",
        "abstract": _runs(paper.abstract),
        "keywords": ", ".join(paper.keywords),
        "sections": sections,
        "table_section": 1,
        "figure_section": results,
        "references": list(paper.references),
        "table": dataclasses.asdict(paper.table),
        "figure": dataclasses.asdict(paper.figure),
        "footnote": paper.footnote,
        "notice": NOTICE,
        "font": font,
        "size": size,
        "wide_abstract": wide_abstract,
        "wide_figure": wide_figure and paper.number % 2 == 0,
    }


def _runs(marked: str) -> list[dict[str, Any]]:
    """Split at `_` marks: every second run is in italics."""
    parts = re.split("_", marked)
    return [{"text": text, "italic": i % 2 == 1} for i, text in enumerate(parts) if text]
