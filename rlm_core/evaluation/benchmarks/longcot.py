"""LongCoT-mini: short problems with long reasoning, that a model may take apart and solve in sub-calls.

Motwani et al. 2026, arXiv 2604.14140; the `easy` split. A file of the user's: one of the published `data/DOMAIN/easy.json`
(`{"questions": [...]}`), or rows of huggingface.co/datasets/LongHorizonReasoning/longcot as .jsonl::

    {"question_id", "domain", "difficulty", "prompt", "problem", "answer"}

The published verifier simulates logic and chess and compares formulas. Here an answer counts when what follows its last
`solution =` equals the reference as JSON or as text without white space: lower than the published score where other forms are
right too. Problems without a reference answer (logic is simulated) are left out.
"""

from __future__ import annotations

import ast
import functools
import json
from pathlib import Path
from typing import Any

from rlm_core.evaluation.benchmarks.files import read_rows
from rlm_core.evaluation.benchmarks.item import BenchmarkItem

SOURCE = "data/DOMAIN/easy.json of github.com/LongHorizonReasoning/longcot"
NEEDS = ("question_id", "prompt", "answer")
HINT = (
    "The problem is made of steps that depend on each other. Find the steps and what each needs from others, then work through "
    "them in that order: keep every result in a variable, give each step that needs thought to a sub-call with all it needs "
    "in its prompt, and check a result by code where that is possible. Put the steps' results together at the end."
)
"""A decomposition hint in our own words, for `bench --hint default`; any other text can be given."""


def load(path: Path | None, size: int, seed: int) -> list[BenchmarkItem]:
    """The easy problems with a reference answer; `size` and `seed` change nothing."""
    rows = read_rows(path, benchmark="longcot-mini", needs=NEEDS, source=SOURCE, list_key="questions")
    items = [
        BenchmarkItem(
            id=f"longcot-mini-{row['question_id']}",
            question=row["prompt"],
            context=row["prompt"],
            gold=row["answer"],
            scorer=functools.partial(score, row["answer"]),
            metadata={"domain": row.get("domain"), "difficulty": row.get("difficulty")},
        )
        for row in rows
        if row["answer"] is not None and row.get("difficulty") in (None, "easy")
    ]
    if not items:
        raise ValueError(f"{path}: no easy problem with a reference answer")
    return items


def score(gold: Any, answer: Any) -> float:
    return float(_value(answer) == _value(gold))


def _value(answer: Any) -> Any:
    """What an answer says: JSON where it is JSON, else its text without white space."""
    if answer is None or isinstance(answer, bool | int | float):
        return answer
    if not isinstance(answer, str):
        return json.loads(json.dumps(answer, default=str))
    text = answer.rpartition("solution =")[2].strip().strip("`$").strip()
    for read in (json.loads, ast.literal_eval):
        try:
            return json.loads(json.dumps(read(text)))
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            continue
    return "".join(text.split())
