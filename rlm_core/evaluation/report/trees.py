"""Rollout trees as plain data for the page: what was written, what came back, what of it is gold evidence."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from rlm_core.records import ErrorClass, Rollout, Status
from rlm_core.rewards import answer_passages

BEFORE_AFTER = ("base", "sft", "grpo")
"""Arms whose trees are shown side by side; where there are none, all arms."""
LONGEST = 6000
"""Characters shown of a single text."""
RUN = 4
"""Words in a row that an answer shares with the gold passages before they are marked as evidence."""


def queries_view(rows: Sequence[Mapping[str, Any]], trees: int) -> list[dict[str, Any]]:
    """The first queries of `reports/rollouts.jsonl` with their trees, about `trees` of them in all (at least one query)."""
    if trees < 1 or not rows:
        return []
    arms = [arm for arm in BEFORE_AFTER if any(row["arm"] == arm for row in rows)]
    arms = arms or list(dict.fromkeys(str(row["arm"]) for row in rows))
    ids = list(dict.fromkeys(str(row["query_id"]) for row in rows))
    view = []
    for query_id in ids[: max(1, trees // len(arms))]:
        of_query = {row["arm"]: row for row in rows if row["query_id"] == query_id}
        shown = [of_query[arm] for arm in arms if arm in of_query]
        if shown:
            first = shown[0]
            keys = ("query_id", "question", "kind", "tier", "gold")
            view.append({**{key: first.get(key) for key in keys}, "trees": [tree_view(row) for row in shown]})
    return view


def tree_view(row: Mapping[str, Any]) -> dict[str, Any]:
    """One arm's tree: its verdict, its nodes, its answer with evidence marked."""
    rollout = Rollout.from_dict(row["rollout"])
    gold = [str(passage["text"]) for passage in row.get("gold", ())]
    return {
        "arm": row["arm"],
        "judgement": row.get("judgement"),
        "f1": row.get("f1"),
        "cause": row.get("cause"),
        "usage": rollout.usage,
        "tokens": rollout.usage.prompt_tokens + rollout.usage.completion_tokens,
        "node": node_view(rollout, gold),
    }


def node_view(node: Rollout, gold: Sequence[str]) -> dict[str, Any]:
    turns: list[dict[str, Any]] = []
    for index, turn in enumerate(node.turns):
        turns.append(
            {
                "number": index + 1,
                "text": cut(turn.text),
                "observation": cut(turn.observation),
                "error": "" if turn.error is ErrorClass.NONE else str(turn.error),
                "seconds": turn.model_seconds + turn.repl_seconds,
                "children": [node_view(child, gold) for child in node.children if child.parent_turn == index],
            }
        )
    placed = {
        id(child) for child in node.children if child.parent_turn is not None and child.parent_turn < len(node.turns)
    }
    return {
        "id": node.id,
        "question": cut(node.question, 600),
        "status": str(node.status),
        "answered": node.status is Status.ANSWERED,
        "failure": node.failure,
        "turns": turns,
        "others": [node_view(child, gold) for child in node.children if id(child) not in placed],
        "answer": [marked(cut(passage, 1500), gold) for passage in answer_passages(node.answer)],
        "raw_answer": cut(json.dumps(node.answer, ensure_ascii=False), 300),
    }


def marked(text: str, gold: Sequence[str]) -> list[tuple[str, bool]]:
    """The text in pieces, True where at least `RUN` words in a row stand in a gold passage; they join to the text."""
    words = text.split(" ")
    is_gold = [False] * len(words)
    plain = [_bare(word) for word in words]
    for passage in gold:
        matcher = SequenceMatcher(None, plain, [_bare(word) for word in passage.split()], autojunk=False)
        for start, _, size in matcher.get_matching_blocks():
            if size >= RUN:
                is_gold[start : start + size] = [True] * size
    pieces: list[tuple[str, bool]] = []
    for place, (word, flag) in enumerate(zip(words, is_gold, strict=True)):
        space = " " if place else ""
        if pieces and pieces[-1][1] == flag:
            pieces[-1] = (pieces[-1][0] + space + word, flag)
        else:
            pieces.append((space + word, flag))
    return pieces


def _bare(word: str) -> str:
    return "".join(letter for letter in word.lower() if letter.isalnum())


def cut(text: str, limit: int = LONGEST) -> str:
    """At most `limit` characters of a text, saying how many are left out."""
    return text if len(text) <= limit else f"{text[:limit]}\n... ({len(text) - limit} more characters)"
