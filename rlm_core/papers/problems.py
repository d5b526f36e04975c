"""What can be wrong with a PDF, found before and while it is read, as one error with a kind and a remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

ProblemKind = Literal[
    "missing",
    "empty",
    "not-a-pdf",
    "truncated",
    "broken",
    "encrypted",
    "no-text",
    "no-pages",
    "too-large",
    "right-to-left",
]

REMEDIES: dict[str, str] = {
    "missing": "check the path",
    "empty": "the file has no bytes: copy or download it again",
    "not-a-pdf": "it does not start with %PDF: remove it, or convert it to PDF",
    "truncated": "the end of the file is missing: copy or download it again",
    "broken": "no reader can open it: repair it (for example `qpdf --linearize`) or leave it out",
    "encrypted": "it needs a password: save an unprotected copy (for example `qpdf --decrypt --password=...`)",
    "no-text": "its pages are images without a text layer: add one (for example `ocrmypdf`) or leave it out",
    "no-pages": "it holds no page: leave it out",
    "right-to-left": "its script runs from right to left, which no part of this project reads: leave it out",
    "too-large": "split it, or leave it out",
}


class PdfProblem(ValueError):
    """A PDF that cannot be used. `kind` is for counting, `remedy` says what a person can do."""

    def __init__(self, kind: ProblemKind, path: Path | str, detail: str = "") -> None:
        self.kind: ProblemKind = kind
        self.path = Path(path)
        self.detail = detail
        self.remedy = REMEDIES[kind]
        super().__init__(kind, str(path), detail)

    def __str__(self) -> str:
        return f"{self.path}: {self.kind}{f' ({self.detail})' if self.detail else ''}; {self.remedy}"

    def __reduce__(self) -> tuple[type[PdfProblem], tuple[ProblemKind, str, str]]:
        # An error raised in a worker process travels pickled.
        return PdfProblem, (self.kind, str(self.path), self.detail)


def check_file(path: Path) -> None:
    """Raise `PdfProblem` for what the bytes alone show: absent, empty, not a PDF, cut off."""
    if not path.is_file():
        detail = "not a regular file" if path.exists() else "a link to nothing" if path.is_symlink() else ""
        raise PdfProblem("missing", path, detail)
    size = path.stat().st_size
    if size == 0:
        raise PdfProblem("empty", path)
    with open(path, "rb") as handle:
        if b"%PDF-" not in handle.read(1024):
            raise PdfProblem("not-a-pdf", path)
        handle.seek(max(0, size - 2048))
        tail = handle.read()
    if b"%%EOF" not in tail and b"startxref" not in tail:
        raise PdfProblem("truncated", path, f"no end mark in {size:,} bytes")
