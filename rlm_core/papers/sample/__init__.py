"""The project's own library of sample papers: invented studies, typeset as two-column PDFs, CC0.

`write_sample_library` makes the PDFs; `library_content` gives the same papers as exact text with the theme of every
paragraph. `docs/sample-library.md` says what is in it.
"""

from rlm_core.papers.sample.content import (
    SamplePaper,
    SampleParagraph,
    SampleSection,
    library_content,
    theme_papers,
)
from rlm_core.papers.sample.typeset import LICENCE, NOTICE, write_sample_library

__all__ = [
    "LICENCE",
    "NOTICE",
    "SamplePaper",
    "SampleParagraph",
    "SampleSection",
    "library_content",
    "theme_papers",
    "write_sample_library",
]
