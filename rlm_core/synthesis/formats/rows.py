"""The rows of one's own JSONL: a line is a question or a paper. `docs/queries.md` shows an example of each."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from rlm_core.papers.records import Paper


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class EvidenceRow(_Row):
    paper: str = Field(min_length=1)
    """Id of the paper that holds it."""
    text: str = Field(min_length=1)
    """The passage, as the paper words it; small differences (line ends, hyphens, misread letters) do no harm."""


class QuestionRow(_Row):
    question: str = Field(min_length=1)
    evidence: tuple[EvidenceRow, ...] = Field(min_length=1)
    papers: tuple[str, ...] = ()
    """What a model may read; empty: the paper of the evidence, or where that lies in several, their whole group."""
    id: str | None = None
    """One's own name for it, kept as provenance."""
    metadata: dict[str, Any] = Field(default_factory=dict)
    """Kept as provenance."""

    @property
    def evidence_papers(self) -> frozenset[str]:
        return frozenset(e.paper for e in self.evidence)

    @model_validator(mode="after")
    def _evidence_can_be_read(self) -> QuestionRow:
        if self.papers and (hidden := sorted(self.evidence_papers - set(self.papers))):
            raise ValueError(f"evidence lies in {', '.join(hidden)}, which 'papers' does not list")
        return self


class SectionRow(_Row):
    title: str = ""
    paragraphs: tuple[str, ...]


class PaperRow(_Row):
    paper: str = Field(min_length=1, pattern=r"^[\w.\-]+$")
    """Its id: letters, digits, dots, dashes and underscores, since a file is named after it."""
    title: str = ""
    abstract: str = ""
    sections: tuple[SectionRow, ...] = ()
    text: str = ""
    """In place of sections: paragraphs with a blank line between."""

    @model_validator(mode="after")
    def _has_text(self) -> PaperRow:
        if bool(self.text.strip()) == any(p.strip() for s in self.sections for p in s.paragraphs):
            raise ValueError("give either 'text' or 'sections' with paragraphs")
        return self


@dataclass
class Imported:
    """What a file held. `rejected` counts questions left out, by reason."""

    papers: list[Paper] = field(default_factory=list)
    questions: list[QuestionRow] = field(default_factory=list)
    rejected: Counter[str] = field(default_factory=Counter)


def read_row(row: dict[str, Any], where: str) -> QuestionRow | PaperRow:
    """One line; raises `ValueError` that names file, line, field and what is wrong with it."""
    if ("question" in row) == ("paper" in row):
        raise ValueError(
            f"{where}: a line is a question (with 'question') or a paper (with 'paper'); this has both or none"
        )
    kind = QuestionRow if "question" in row else PaperRow
    try:
        return kind.model_validate(row)
    except ValidationError as error:
        faults = [
            f"{'.'.join(map(str, e['loc'])) or 'the line'}: {e['msg'].removeprefix('Value error, ')}"
            for e in error.errors()
        ]
        raise ValueError(f"{where}: {'; '.join(faults)}") from None


def lines_of(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(file:line, object) of a .jsonl or .jsonl.gz; raises `ValueError` naming the line that is none."""
    unpack = gzip.open if path.suffix == ".gz" else open
    with unpack(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield f"{path}:{number}", _object(line, f"{path}:{number}")


def _object(line: str, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"{where}: not JSON ({error})") from None
    if not isinstance(row, dict):
        raise ValueError(f"{where}: expected an object, got {type(row).__name__}")
    return row
