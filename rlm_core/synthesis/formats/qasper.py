"""QASPER's JSON (Dasigi et al., 2021), read and written: one object, a paper id to its text and its questions.

Each answer of an annotator holds `evidence`: whole paragraphs of `full_text`, or "FLOAT SELECTED: ..." for a figure or table.
The first annotator whose evidence is all text gives a question its gold; questions that no one could answer, or only from
figures and tables, are left out and counted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rlm_core.papers.records import Paper
from rlm_core.papers.texts import text_paper
from rlm_core.records import Query
from rlm_core.synthesis.formats.own import paper_row
from rlm_core.synthesis.formats.rows import EvidenceRow, Imported, QuestionRow

FLOAT = "FLOAT SELECTED"


class _Row(BaseModel):
    """Keys that this project does not need are passed over."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class _Section(_Row):
    section_name: str | None = ""
    paragraphs: tuple[str, ...] = ()


class _Answer(_Row):
    unanswerable: bool = False
    evidence: tuple[str, ...] = ()


class _Annotation(_Row):
    answer: _Answer


class _Question(_Row):
    question: str = Field(min_length=1)
    question_id: str = ""
    answers: tuple[_Annotation, ...] = ()


class _Paper(_Row):
    title: str = ""
    abstract: str = ""
    full_text: tuple[_Section, ...]
    qas: tuple[_Question, ...] = ()


def read(path: Path) -> Imported:
    """All papers and the questions with text evidence; raises `ValueError` naming the paper and the field at fault."""
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{path}: not JSON ({error}); QASPER's files are one object each, e.g. qasper-dev-v0.3.json"
        ) from None
    if not isinstance(rows, dict):
        raise ValueError(f"{path}: expected an object of papers by id, got {type(rows).__name__}")
    found = Imported()
    for paper_id, row in rows.items():
        try:
            paper = _Paper.model_validate(row)
        except ValidationError as error:
            faults = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:5])
            raise ValueError(f"{path}: paper {paper_id!r}: {faults}") from None
        sections = [(s.section_name or "", s.paragraphs) for s in paper.full_text]
        found.papers.append(text_paper(paper_id, paper.title, paper.abstract, sections))
        for question in paper.qas:
            if evidence := _evidence(question, paper, found):
                gold = tuple(EvidenceRow(paper=paper_id, text=text) for text in evidence)
                about = {"source": "QASPER", "annotators": len(question.answers)}
                found.questions.append(
                    QuestionRow(
                        question=question.question, evidence=gold, id=question.question_id or None, metadata=about
                    )
                )
    return found


def _evidence(question: _Question, paper: _Paper, found: Imported) -> list[str]:
    """The evidence paragraphs of the first annotator who names text of the body only; empty, counted, where none does."""
    answers = [
        a.answer for a in question.answers if not a.answer.unanswerable and any(map(str.strip, a.answer.evidence))
    ]
    if not answers:
        found.rejected["unanswerable, or without evidence"] += 1
        return []
    text_only = [a for a in answers if not any(e.startswith(FLOAT) for e in a.evidence)]
    if not text_only:
        found.rejected["evidence in a figure or table"] += 1
        return []
    paragraphs = [paper.abstract, *(p for s in paper.full_text for p in s.paragraphs)]
    known = {" ".join(p.split()) for p in paragraphs}
    for answer in text_only:
        texts = list(dict.fromkeys(" ".join(e.split()) for e in answer.evidence if e.strip()))
        if all(text in known for text in texts):
            return texts
    found.rejected["evidence is no paragraph of the paper"] += 1
    return []


def rows_of(queries: Iterable[tuple[str, Query]], library: Mapping[str, Paper]) -> dict[str, Any]:
    """Single-paper queries in QASPER's shape; others have no place in it.

    `evidence` are whole paragraphs, `highlighted_evidence` the passages themselves; `free_form_answer` is empty, for no
    answer was written.
    """
    papers: dict[str, Any] = {}
    for _, query in queries:
        if len(query.paper_ids) != 1:
            continue
        (paper_id,) = query.paper_ids
        paper = papers.setdefault(paper_id, _paper(library[paper_id]))
        texts = [e.text for e in query.evidence]
        paragraphs = [p for section in paper["full_text"] for p in section["paragraphs"]] + [paper["abstract"]]
        whole = [next((p for p in paragraphs if text in p), text) for text in texts]
        answer = {
            "unanswerable": False,
            "extractive_spans": texts,
            "yes_no": None,
            "free_form_answer": "",
            "evidence": list(dict.fromkeys(whole)),
            "highlighted_evidence": texts,
        }
        paper["qas"].append(
            {
                "question": query.question,
                "question_id": query.id,
                "answers": [{"answer": answer, "annotation_id": query.id}],
            }
        )
    return papers


def _paper(paper: Paper) -> dict[str, Any]:
    row = paper_row(paper)
    sections = row.get("sections") or [{"title": "", "paragraphs": [row["text"]]}]
    full_text = [{"section_name": s["title"], "paragraphs": s["paragraphs"]} for s in sections]
    return {
        "title": paper.title,
        "abstract": paper.abstract,
        "full_text": full_text,
        "qas": [],
        "figures_and_tables": [],
    }
