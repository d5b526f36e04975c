"""What baselines share that read text in prompts: fitting texts into a context, reading an answer, recording a call."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from rlm_core.evaluation.benchmarks.item import count_tokens
from rlm_core.policies.base import Action
from rlm_core.records import Context, ErrorClass, Turn, Usage

SHRINK = 0.85
ATTEMPTS = 12
"""Each prompt that turns out too long is cut to 85 % and tried again: down to a seventh of the estimate."""


def answer_tokens(max_tokens: int, max_model_len: int) -> int:
    """Tokens kept for an answer: a quarter of the context, and no more than an RLM tree may write."""
    return min(max_tokens, max_model_len // 4)


def texts_of(context: Context) -> dict[str, str]:
    """The papers as texts under their titles, by id; a context that is one text has the id ""."""
    papers = {"": {"title": "", "text": context}} if isinstance(context, str) else context
    return {paper_id: f"# {paper['title']}\n{paper['text']}" for paper_id, paper in papers.items()}


def fit(context: Context, budget: int) -> tuple[str, float]:
    """The context as one text of at most about `budget` tokens, and the share of its characters that is in it.

    Papers get equal room; what a short one leaves is shared out among the others. Each is cut at its end.
    """
    texts = texts_of(context)
    need = {paper_id: count_tokens(text) for paper_id, text in texts.items()}
    room = shares(need, budget)
    kept = {paper_id: text[: _chars(text, need[paper_id], room[paper_id])] for paper_id, text in texts.items()}
    total = sum(len(text) for text in texts.values())
    return "\n\n".join(kept.values()), sum(len(text) for text in kept.values()) / total if total else 1.0


def shares(need: Mapping[str, int], budget: int) -> dict[str, int]:
    """Share `budget` out equally among `need`, none getting more than it needs.

    >>> shares({"a": 10, "b": 100, "c": 100}, 110)
    {'a': 10, 'b': 50, 'c': 50}
    """
    room: dict[str, int] = {}
    left = budget
    for place, key in enumerate(sorted(need, key=lambda key: need[key])):
        room[key] = min(need[key], left // (len(need) - place))
        left -= room[key]
    return room


def _chars(text: str, tokens: int, room: int) -> int:
    return len(text) if room >= tokens else int(len(text) * room / max(1, tokens))


_FENCE = re.compile(r"```(?:json)?\s*\n(.*?)```", re.DOTALL)


def read_answer(text: str) -> tuple[list[str], bool]:
    """Passages of a reply, and whether it was the JSON list that was asked for (alone, in a fence, or after prose)."""
    for candidate in (*_FENCE.findall(text), text):
        start = candidate.find("[")
        while start >= 0:
            found = _list_at(candidate, start)
            if found is not None:
                return found, True
            start = candidate.find("[", start + 1)
    lines = (re.sub(r"^\s*(?:[-*•]|\d+[.)])\s+", "", line).strip().strip('"') for line in text.splitlines())
    return [line for line in lines if line], False


def _list_at(text: str, start: int) -> list[str] | None:
    try:
        value: Any = json.JSONDecoder().raw_decode(text, start)[0]
    except (json.JSONDecodeError, RecursionError):
        return None
    return value if isinstance(value, list) and all(isinstance(part, str) for part in value) else None


def turn_of(action: Action, *, cue: str = "", error: ErrorClass = ErrorClass.NONE) -> Turn:
    """One call without code as a turn; one that was cut says so, whatever else is wrong with it."""
    return Turn(
        text=action.text,
        prompt_ids=action.prompt_ids,
        completion_ids=action.completion_ids,
        logprobs=action.logprobs,
        cue=cue,
        error=ErrorClass.LENGTH if action.finish_reason == "length" else error,
        finish_reason=action.finish_reason,
        model_seconds=action.seconds,
        weights_version=action.weights_version,
    )


def usage_of(action: Action) -> Usage:
    """What one call cost."""
    return Usage(
        prompt_tokens=action.prompt_tokens or len(action.prompt_ids),
        completion_tokens=action.completion_tokens or len(action.completion_ids),
        model_calls=1,
        turns=1,
        model_seconds=action.seconds,
    )
