"""Evidence Inference 2.0 (DeYoung et al., 2020): prompts on medical trials, with spans that annotators marked.

A line is a paper: `pmcid`, `title`, `text`, and `questions`, each with `outcome`, `intervention`, `comparator` and `evidence`
(`start`, `end`, `text`). The spans of all annotators of a prompt are taken together, joined where they overlap.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rlm_core.papers.records import Paper
from rlm_core.papers.texts import text_paper
from rlm_core.synthesis.formats.rows import EvidenceRow, Imported, QuestionRow, lines_of

_HEADING = re.compile(r"^(?P<part>TITLE|ABSTRACT|BODY)(?:\.(?P<name>[^\n]*))?:[ \t]*$", re.MULTILINE)


def read(path: Path) -> Imported:
    """All papers, and the prompts whose spans read as they say; raises `ValueError` for lines of another shape."""
    found = Imported()
    for where, row in lines_of(path):
        missing = [key for key in ("pmcid", "text", "questions") if key not in row]
        if missing:
            raise ValueError(f"{where}: not a paper of Evidence Inference: no {', '.join(map(repr, missing))}")
        found.papers.append(paper_of(row))
        for prompt in row["questions"]:
            try:
                question = _question(prompt, row, found)
            except (KeyError, TypeError) as error:
                raise ValueError(f"{where}: a prompt of {row['pmcid']} is not as expected ({error!r})") from None
            if question:
                found.questions.append(question)
    return found


def paper_of(row: Mapping[str, Any]) -> Paper:
    """The text taken apart at its headings, "BODY.RESULTS:"; what stands before the first is body."""
    text = row["text"]
    heads = [*_HEADING.finditer(text)]
    bounds = [0, *(h.start() for h in heads), len(text)]
    abstract: list[str] = []
    sections: list[tuple[str, list[str]]] = []
    for head, low, high in zip([None, *heads], bounds, bounds[1:], strict=False):
        block = text[head.end() if head else low : high]
        paragraphs = [p for p in re.split(r"\n\s*\n?", block) if p.strip()]
        part = head["part"] if head else "BODY"
        if part == "TITLE":
            abstract += paragraphs[1:]  # some abstracts have no heading of their own
        elif part == "ABSTRACT":
            abstract += paragraphs
        elif part == "BODY" and paragraphs:
            sections.append(((head["name"] or "").capitalize() if head else "", paragraphs))
    return text_paper(row["pmcid"], row.get("title", ""), "\n".join(abstract), sections)


def _question(prompt: Mapping[str, Any], row: Mapping[str, Any], found: Imported) -> QuestionRow | None:
    text = row["text"]
    marks = prompt["evidence"]
    if any(text[m["start"] : m["end"]] != m["text"] for m in marks):
        found.rejected["a span does not read as it says"] += 1
        return None
    if not marks:
        found.rejected["no evidence marked"] += 1
        return None
    spans = joined((m["start"], m["end"]) for m in marks)
    evidence = tuple(EvidenceRow(paper=row["pmcid"], text=text[a:b].strip()) for a, b in spans)
    question = (
        f"What effect does {prompt['intervention']} have on {prompt['outcome']}, compared with {prompt['comparator']}?"
    )
    labels = sorted({m["label"] for m in marks if "label" in m})
    about = {"source": "Evidence Inference 2.0", "labels": labels}
    return QuestionRow(question=question, evidence=evidence, id=str(prompt["prompt_id"]), metadata=about)


def joined(spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Spans in order, those that overlap made one."""
    start, end = -1, -1
    for low, high in sorted(spans):
        if low < end:
            end = max(end, high)
            continue
        if end >= 0:
            yield start, end
        start, end = low, high
    if end >= 0:
        yield start, end
