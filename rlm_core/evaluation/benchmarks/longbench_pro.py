"""LongBench-Pro: 25 tasks over real long documents. The teacher's source in the paper on RLMs (750 English ones).

A file of the user's: `longbench_pro.json` of huggingface.co/datasets/caskcsg/LongBench-Pro, a list of::

    {"id", "context", "language", "token_length": "8k".."256k", "primary_task", "secondary_task", "contextual_requirement",
     "question_nonthinking", "question_thinking", "answer": [...], "difficulty"}

The metric goes by task as in the published evaluation (github.com/caskcsg/longcontext); the metrics are written here from
their descriptions: exact match, F1 over sets, share of answers contained, share of pairs in order, NDCG. The two summary
tasks need an embedding model to score and are left out. An answer's entries stand one a line, after `[Answer]` if it is there.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rlm_core.evaluation.benchmarks.files import read_rows
from rlm_core.evaluation.benchmarks.item import BenchmarkItem, as_passages

SOURCE = "longbench_pro.json of huggingface.co/datasets/caskcsg/LongBench-Pro"
NEEDS = ("id", "context", "language", "token_length", "secondary_task", "question_nonthinking", "answer")


def load(path: Path | None, size: int, seed: int) -> list[BenchmarkItem]:
    """English items of at most `size` tokens whose task can be scored; nothing is drawn by `seed`."""
    rows = read_rows(path, benchmark="longbench-pro", needs=NEEDS, source=SOURCE)
    items = [
        BenchmarkItem(
            id=f"longbench-pro-{row['id']}",
            question=row["question_nonthinking"],
            context=row["context"],
            gold=list(row["answer"]),
            scorer=functools.partial(score, metric, list(row["answer"])),
            metadata={key: row.get(key) for key in ("primary_task", "secondary_task", "difficulty", "token_length")},
        )
        for row in rows
        if row["language"] == "English"
        and tokens_of(row["token_length"]) <= size
        and (metric := metric_of(row["secondary_task"])) is not None
    ]
    if not items:
        raise ValueError(f"{path}: no English item of at most {size} tokens with a task that can be scored")
    return items


def tokens_of(bucket: Any) -> int:
    """`8k` -> 8192."""
    text = str(bucket).lower().strip()
    return int(text.removesuffix("k")) * 1024 if text.endswith("k") else int(text)


def entries_of(answer: Any) -> list[str]:
    """The entries of an answer, lower case, without list marks."""
    text = "\n".join(as_passages(answer))
    text = text.rpartition("[Answer]")[2]
    lines = (re.sub(r"^\s*(?:[-*•]|\d+[.)])\s+", "", line) for line in text.splitlines())
    return [plain for line in lines if (plain := " ".join(line.lower().split()))]


def score(metric: Callable[[Sequence[str], Sequence[str]], float], gold: Sequence[Any], answer: Any) -> float:
    entries = entries_of(answer)
    return metric([" ".join(str(g).lower().split()) for g in gold], entries) if entries else 0.0


def accuracy(gold: Sequence[str], given: Sequence[str]) -> float:
    return float(given[0] == gold[0])


def set_f1(gold: Sequence[str], given: Sequence[str]) -> float:
    return 2 * len(set(gold) & set(given)) / (len(set(gold)) + len(set(given)))


def contained(gold: Sequence[str], given: Sequence[str]) -> float:
    """Share of gold entries that stand in the answer, whole, as an entry or inside one."""
    text = "\n".join(given)
    return sum(re.search(rf"(?<!\w){re.escape(entry)}(?!\w)", text) is not None for entry in gold) / len(gold)


def pairs_in_order(gold: Sequence[str], given: Sequence[str]) -> float:
    """Share of the gold's ordered pairs that the answer has in that order; a missing entry breaks all its pairs."""
    if len(gold) == 1:
        return accuracy(gold, given)
    place = {entry: index for index, entry in reversed(list(enumerate(given)))}
    pairs = list(itertools.combinations(gold, 2))
    return sum(a in place and b in place and place[a] < place[b] for a, b in pairs) / len(pairs)


def ndcg(gold: Sequence[str], given: Sequence[str]) -> float:
    """At the gold's length; the gain of gold entry i of k is k - i."""
    gains = {entry: len(gold) - index for index, entry in reversed(list(enumerate(gold)))}
    once = list(dict.fromkeys(given))[: len(gold)]
    found = sum(gains.get(entry, 0) / math.log2(index + 2) for index, entry in enumerate(once))
    best = sum(gain / math.log2(index + 2) for index, gain in enumerate(sorted(gains.values(), reverse=True)))
    return found / best


METRICS: dict[str, Callable[[Sequence[str], Sequence[str]], float] | None] = {
    **dict.fromkeys(("T1.1", "T1.2"), ndcg),
    **dict.fromkeys(("T2.1", "T2.2", "T6.3"), pairs_in_order),
    **dict.fromkeys(("T3.1", "T3.2", "T11.1", "T11.2"), accuracy),
    **dict.fromkeys(("T4.1", "T4.2"), None),
    **dict.fromkeys(("T5.1", "T5.2", "T6.2", "T7.1", "T7.2", "T7.3", "T9.1", "T9.2"), set_f1),
    **dict.fromkeys(("T6.1", "T8.1", "T8.2", "T8.3", "T10.1", "T10.2"), contained),
}


def metric_of(task: str) -> Callable[[Sequence[str], Sequence[str]], float] | None:
    """By the task's number, `T3.2 Single-Hop Fact QA`; None for summaries. Raises `ValueError` for a task unknown here."""
    number = task.split(" ", 1)[0]
    if number not in METRICS:
        raise ValueError(f"longbench-pro: unknown secondary_task {task!r}; known numbers: {', '.join(METRICS)}")
    return METRICS[number]
