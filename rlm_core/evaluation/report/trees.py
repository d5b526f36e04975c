"""Rollout trees as plain data for the page: what was written, what came back, what of it is gold evidence."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rlm_core.records import ErrorClass, Rollout, Status
from rlm_core.rewards import answer_passages
from rlm_core.rewards.overlap import Intervals, matched_intervals

BEFORE_AFTER = ("base", "sft", "grpo")
"""Arms whose trees are shown side by side; where there are none, all arms."""
LONGEST = 6000
"""Characters shown of a single text."""
ANSWER = 1500
"""Characters shown of a passage of an answer."""

Pieces = list[tuple[str, bool]]


def queries_view(rows: Sequence[Mapping[str, Any]], trees: int) -> list[dict[str, Any]]:
    """The queries of `reports/rollouts.jsonl` with their trees, about `trees` of them in all (at least one query).

    Taken in turn from the rules that chose them, so that gains never stand without losses.
    """
    if trees < 1 or not rows:
        return []
    arms = [arm for arm in BEFORE_AFTER if any(row["arm"] == arm for row in rows)]
    arms = arms or list(dict.fromkeys(str(row["arm"]) for row in rows))
    view = []
    for query_id in _in_turn(rows)[: max(1, trees // len(arms))]:
        of_query = {row["arm"]: row for row in rows if row["query_id"] == query_id}
        shown = [of_query[arm] for arm in arms if arm in of_query]
        if shown:
            first = shown[0]
            gold = [str(passage["text"]) for passage in first.get("gold", ())]
            view.append(
                {
                    **{key: first.get(key) for key in ("query_id", "question", "kind", "tier", "gold")},
                    "why": first.get("why") or "by order",
                    "trees": [tree_view(row, gold) for row in shown],
                }
            )
    return view


def _in_turn(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Query ids: the first of every rule, then the second of every rule, and so on."""
    rules: dict[str, list[str]] = {}
    for row in rows:
        ids = rules.setdefault(str(row.get("why") or "by order"), [])
        if row["query_id"] not in ids:
            ids.append(str(row["query_id"]))
    longest = max(map(len, rules.values()))
    return [ids[place] for place in range(longest) for ids in rules.values() if place < len(ids)]


def tree_view(row: Mapping[str, Any], gold: Sequence[str]) -> dict[str, Any]:
    """One arm's tree: its verdict, its nodes, its answer with evidence marked, and the gold with what it found marked."""
    rollout = Rollout.from_dict(row["rollout"])
    passages = [cut(passage, ANSWER) for passage in answer_passages(rollout.answer)]
    in_answer, in_gold = matched_intervals(passages, gold)
    judgement = row.get("judgement")
    return {
        "arm": row["arm"],
        "judgement": judgement,
        "level": level(judgement["reward"] if judgement else None),
        "f1": row.get("f1"),
        "cause": row.get("cause"),
        "usage": rollout.usage,
        "tokens": rollout.usage.prompt_tokens + rollout.usage.completion_tokens,
        "node": node_view(rollout),
        "answer": [marked(text, found) for text, found in zip(passages, in_answer, strict=True)],
        "found": [marked(cut(text, ANSWER), found) for text, found in zip(gold, in_gold, strict=True)],
    }


def level(reward: float | None) -> str:
    """The colour of a verdict: good from 0.5, some from 0.2, bad; none where there is no verdict."""
    if reward is None:
        return "none"
    return "good" if reward >= 0.5 else "some" if reward >= 0.2 else "bad"


def node_view(node: Rollout) -> dict[str, Any]:
    """A node with its turns, the children of each turn, and children that no turn asked for."""
    turns: list[dict[str, Any]] = []
    for index, turn in enumerate(node.turns):
        turns.append(
            {
                "number": index + 1,
                "text": cut(turn.text),
                "observation": cut(turn.observation),
                "error": "" if turn.error is ErrorClass.NONE else str(turn.error),
                "seconds": turn.model_seconds + turn.repl_seconds,
                "children": [node_view(child) for child in node.children if child.parent_turn == index],
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
        "others": [node_view(child) for child in node.children if id(child) not in placed],
        "answer": [cut(passage, ANSWER) for passage in answer_passages(node.answer)],
        "raw_answer": cut(json.dumps(node.answer, ensure_ascii=False), 300),
    }


def marked(text: str, intervals: Intervals) -> Pieces:
    """The text in pieces, True inside the intervals; they join to the text. Intervals past its end are cut."""
    pieces: Pieces = []
    place = 0
    for start, end in intervals:
        start, end = min(start, len(text)), min(end, len(text))
        pieces += [(text[place:start], False), (text[start:end], True)]
        place = end
    return [piece for piece in [*pieces, (text[place:], False)] if piece[0]]


def cut(text: str, limit: int = LONGEST) -> str:
    """At most `limit` characters of a text, saying how many are left out."""
    return text if len(text) <= limit else f"{text[:limit]}\n... ({len(text) - limit} more characters)"
