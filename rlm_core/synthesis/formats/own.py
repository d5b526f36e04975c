"""One's own JSONL, read and written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rlm_core.papers.records import Paper
from rlm_core.papers.texts import text_paper
from rlm_core.records import Query
from rlm_core.synthesis.formats.rows import Imported, PaperRow, QuestionRow, lines_of, read_row


def read(path: Path) -> Imported:
    """Questions and papers of a file; raises `ValueError` that names the first faulty line."""
    found = Imported()
    for where, line in lines_of(path):
        row = read_row(line, where)
        if isinstance(row, QuestionRow):
            found.questions.append(row)
        else:
            found.papers.append(paper_of(row))
    return found


def read_questions(path: Path) -> list[QuestionRow]:
    """The questions of a file; papers in it are passed over: the stages before have read them."""
    return read(path).questions


def paper_of(row: PaperRow) -> Paper:
    sections = [(s.title, list(s.paragraphs)) for s in row.sections] or [("", re.split(r"\n\s*\n", row.text))]
    return text_paper(row.paper, row.title, row.abstract, sections)


def rows_of(queries: Iterable[tuple[str, Query]], library: Mapping[str, Paper]) -> Iterator[dict[str, Any]]:
    """Papers, then questions, as lines that `read` takes; the split of a question is in its metadata."""
    every = list(queries)
    for paper_id in sorted({p for _, query in every for p in query.paper_ids}):
        yield paper_row(library[paper_id])
    for split, query in every:
        yield {
            "question": query.question,
            "evidence": [{"paper": e.paper_id, "text": e.text} for e in query.evidence],
            "papers": list(query.paper_ids),
            "id": query.id,
            "metadata": {"split": split, "tier": query.tier, "kind": query.kind, **query.provenance},
        }


def paper_row(paper: Paper) -> dict[str, Any]:
    """The clean text by sections; the abstract stands apart."""
    sections: list[dict[str, Any]] = []
    for paragraph in paper.paragraphs:
        if paragraph.kind in ("title", "abstract", "heading", "front"):
            continue
        if not sections or sections[-1]["title"] != paragraph.section:
            sections.append({"title": paragraph.section, "paragraphs": []})
        sections[-1]["paragraphs"].append(paragraph.text)
    body = {"sections": sections} if sections else {"text": paper.text}
    return {"paper": paper.id, "title": paper.title, "abstract": paper.abstract, **body}
