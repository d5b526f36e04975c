"""Evidence Inference 2.0: questions on treatments in medical papers, with passages that human annotators marked.

File schema (one paper a line, gzip or plain .jsonl)::

    {"pmcid", "title", "text", "questions": [{"prompt_id", "outcome", "intervention", "comparator",
        "evidence": [{"start", "end", "text", "user", ...}]}]}

A question has one to three annotators, who marked more or less of the same finding: an answer is compared with each,
and the best counts. `gold` is the first annotator's.
"""

from __future__ import annotations

import functools
import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from rlm_core.evaluation.benchmarks.item import BenchmarkItem, as_passages, count_tokens

DEFAULT_PATH = Path("../shared/eval/evidence_inference_dev.jsonl.gz")
"""Tried where no path is given; relative to the project folder."""

Paper = Mapping[str, Any]


def load(path: Path | None, size: int, seed: int) -> list[BenchmarkItem]:
    """One item a question with evidence, in the order of the file.

    A context is the question's paper, never cut, and other papers of the file, drawn by `seed`, while they fit in `size`.
    """
    papers = read_papers(_existing(path))
    tokens = {paper["pmcid"]: count_tokens(paper["text"]) for paper in papers}
    items = []
    for paper in papers:
        context = _context(paper, papers, tokens, size, seed)
        total = sum(tokens[paper_id] for paper_id in context)
        for prompt in paper["questions"]:
            gold = marked_passages(prompt, paper["text"])
            if not gold:
                continue
            items.append(
                BenchmarkItem(
                    id=f"evidence-inference-{prompt['prompt_id']}",
                    question=question_of(prompt),
                    context=context,
                    gold=next(iter(gold.values())),
                    scorer=functools.partial(score_passages, tuple(gold.values())),
                    metadata={"paper_id": paper["pmcid"], "annotators": gold, "tokens": total, "papers": len(context)},
                )
            )
    return items


def question_of(prompt: Mapping[str, Any]) -> str:
    return (
        f"Which passages report the effect of {prompt['intervention']} on {prompt['outcome']}, "
        f"compared with {prompt['comparator']}?"
    )


def marked_passages(prompt: Mapping[str, Any], text: str) -> dict[str, list[str]]:
    """Each annotator's passages in the order of the paper; those that overlap are joined."""
    spans: dict[str, list[tuple[int, int]]] = {}
    for mark in prompt["evidence"]:
        spans.setdefault(str(mark.get("user", "")), []).append((mark["start"], mark["end"]))
    return {user: [text[a:b].strip() for a, b in _joined(marked)] for user, marked in sorted(spans.items())}


def _joined(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined


def score_passages(annotators: Sequence[Sequence[str]], answer: Any) -> float:
    """Evidence F1 against the annotator that the answer agrees with best."""
    from rlm_core.rewards import evidence_f1

    predicted = as_passages(answer)
    return max(evidence_f1(predicted, list(gold)).f1 for gold in annotators)


def _context(
    paper: Paper, papers: Sequence[Paper], tokens: Mapping[str, int], size: int, seed: int
) -> dict[str, dict[str, str]]:
    """The paper and its distractors in random order, as the library's `{id: {"title", "abstract", "text"}}`."""
    rng = Random(f"evidence-inference {seed} {paper['pmcid']}")
    chosen = [paper]
    left = size - tokens[paper["pmcid"]]
    for other in rng.sample(papers, len(papers)):
        if other is not paper and tokens[other["pmcid"]] <= left:
            chosen.append(other)
            left -= tokens[other["pmcid"]]
    rng.shuffle(chosen)
    return {p["pmcid"]: {"title": p["title"], "abstract": abstract_of(p["text"]), "text": p["text"]} for p in chosen}


def abstract_of(text: str) -> str:
    """The text between the `ABSTRACT` headings and the first `BODY` heading of this data's layout; may be empty."""
    start = text.find("ABSTRACT")
    end = text.find("\nBODY")
    return text[start:end].strip() if 0 <= start < end else ""


def _existing(path: Path | None) -> Path:
    if path is None and not DEFAULT_PATH.exists():
        raise ValueError(
            "evidence-inference reads a file: pass path= a .jsonl or .jsonl.gz of papers with 'pmcid', 'title', 'text' and "
            f"'questions' (Evidence Inference 2.0, github.com/jayded/evidence-inference); {DEFAULT_PATH} is not there either"
        )
    path = path or DEFAULT_PATH
    if not path.is_file():
        raise ValueError(f"evidence-inference: no such file: {path}")
    return path


def read_papers(path: Path) -> list[Paper]:
    """All papers of the file; raises `ValueError` for a row that lacks a field or whose span is not its text."""
    papers = []
    for number, line in enumerate(_lines(path), 1):
        place = f"{path}:{number}"
        try:
            paper = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"{place}: not JSON ({error})") from error
        try:
            _check(paper, place)
        except (KeyError, TypeError) as error:
            raise ValueError(
                f"{place}: not in the expected schema: {error!r} is missing or of the wrong type"
            ) from error
        papers.append(paper)
    if not papers:
        raise ValueError(f"{path}: holds no papers")
    return papers


def _lines(path: Path) -> Iterator[str]:
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else open(path, encoding="utf-8") as lines:
            yield from (line for line in lines if line.strip())
    except (OSError, EOFError) as error:
        raise ValueError(f"{path}: cannot read ({error})") from error


def _check(paper: Any, place: str) -> None:
    text = paper["text"]
    for key in ("pmcid", "title"):
        paper[key]
    for prompt in paper["questions"]:
        for key in ("prompt_id", "outcome", "intervention", "comparator"):
            prompt[key]
        for mark in prompt["evidence"]:
            found = text[mark["start"] : mark["end"]]
            if found != mark["text"]:
                raise ValueError(
                    f"{place}: prompt {prompt['prompt_id']}: the span {mark['start']}..{mark['end']} holds {found[:60]!r}, "
                    f"not the passage {mark['text'][:60]!r}"
                )
