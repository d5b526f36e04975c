"""OOLONG (the synthetic part): one count, label, date or comparison over many unlabelled lines of a long text.

Bertsch et al. 2025, arXiv 2511.02817. A file of the user's with rows of the published dataset (huggingface.co/datasets/
oolongbench/oolong-synth, as .jsonl)::

    {"id", "context_len", "dataset", "context_window_text", "question", "task_group", "task", "answer", "answer_type", ...}

`answer` is a list as text, e.g. `"['location']"`, `"[12]"`. Score as published: 0.75 to the power of the distance for numbers,
else whether the answer is the same. The paper on RLMs uses `dataset == "trec_coarse"` at 131,072 tokens.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

from rlm_core.evaluation.benchmarks.files import read_rows
from rlm_core.evaluation.benchmarks.item import BenchmarkItem, as_passages

SOURCE = "rows of huggingface.co/datasets/oolongbench/oolong-synth as .jsonl"
NEEDS = ("id", "context_len", "context_window_text", "question", "answer", "answer_type")


def load(path: Path | None, size: int, seed: int) -> list[BenchmarkItem]:
    """The items of the longest context length in the file that is at most `size`; nothing is drawn by `seed`."""
    rows = read_rows(path, benchmark="oolong", needs=NEEDS, source=SOURCE)
    lengths = sorted({int(row["context_len"]) for row in rows})
    fitting = [length for length in lengths if length <= size]
    if not fitting:
        raise ValueError(f"{path}: no context of at most {size} tokens; the file has {', '.join(map(str, lengths))}")
    return [
        BenchmarkItem(
            id=f"oolong-{row['id']}",
            question=row["question"],
            context=row["context_window_text"],
            gold=gold_of(row["answer"]),
            scorer=functools.partial(score, gold_of(row["answer"]), str(row["answer_type"])),
            metadata={key: row.get(key) for key in ("dataset", "task_group", "task", "answer_type", "context_len")},
        )
        for row in rows
        if int(row["context_len"]) == fitting[-1]
    ]


def gold_of(answer: Any) -> str:
    """`"['location']"` -> `location`; `[datetime.date(2023, 1, 2)]` -> `2023-01-02`."""
    text = str(answer[0] if isinstance(answer, list) and len(answer) == 1 else answer).strip().strip("[]").strip()
    if found := re.fullmatch(r"datetime\.date(?:time)?\((\d+), *(\d+), *(\d+).*\)", text):
        year, month, day = map(int, found.groups())
        return f"{year:04}-{month:02}-{day:02}"
    return text.strip("'\"")


def score(gold: str, answer_type: str, answer: Any) -> float:
    said = said_of(answer)
    if not said:
        return 0.0
    if "NUMERIC" in answer_type.upper():
        numbers = re.findall(r"-?\d+", said.replace(",", ""))
        return float(0.75 ** abs(int(gold) - int(numbers[-1]))) if numbers else 0.0
    if "COMPARISON" in answer_type.upper():
        return float(_plain(gold) in _plain(said))
    if "DATE" in answer_type.upper():
        return float(_day(said) == _day(gold))
    return float(_plain(said) == _plain(gold))


def said_of(answer: Any) -> str:
    """The last line of an answer, after its last colon: `Label: location` says `location`."""
    lines = [line.strip() for passage in as_passages(answer) for line in passage.splitlines() if line.strip()]
    return lines[-1].rpartition(":")[2].strip(" *[]'\"") if lines else ""


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


def _day(text: str) -> str:
    """A date as YYYY-MM-DD, from that form or one in words; the text itself where it is none."""
    from dateutil import parser

    try:
        return parser.parse(text).date().isoformat()
    except (ValueError, OverflowError):
        return text
