"""Papers: PDF parsing, OCR, sections, grouping, and the tools that a policy uses on them.

Names are imported on first use, so that a sandboxed worker that needs only `rlm_core.papers.tools` loads nothing heavy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlm_core.papers.grouping import Group, group_papers
    from rlm_core.papers.library import attach_context, load_library
    from rlm_core.papers.ocr import ocr_pdf
    from rlm_core.papers.parsing import parse_pdf
    from rlm_core.papers.problems import PdfProblem
    from rlm_core.papers.records import Paper, Paragraph, Section
    from rlm_core.papers.tools import make_tools

_HOMES = {
    "Group": "grouping",
    "Paper": "records",
    "Paragraph": "records",
    "PdfProblem": "problems",
    "Section": "records",
    "attach_context": "library",
    "group_papers": "grouping",
    "load_library": "library",
    "make_tools": "tools",
    "ocr_pdf": "ocr",
    "parse_pdf": "parsing",
}

__all__ = [
    "Group",
    "Paper",
    "Paragraph",
    "PdfProblem",
    "Section",
    "attach_context",
    "group_papers",
    "load_library",
    "make_tools",
    "ocr_pdf",
    "parse_pdf",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
