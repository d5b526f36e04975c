"""The long-context baseline: one model call that reads as much of the papers as fits and answers with quoted passages."""

from __future__ import annotations

import dataclasses
import json
import re
import time
from collections.abc import Mapping
from typing import Any

from rlm_core.evaluation.benchmarks.item import count_tokens
from rlm_core.policies.base import Action, Message, Policy, PolicyError, PromptTooLong, Sampling, policy_name
from rlm_core.records import Context, ErrorClass, Query, Rollout, Status, Turn, Usage
from rlm_core.rollouts import RolloutConfig, derive_seed

SYSTEM = (
    "Find the passages of the papers that are evidence for the question. Copy them word for word. "
    "Answer with a JSON list of strings and nothing else."
)
SHRINK = 0.85
ATTEMPTS = 12
"""Each prompt that turns out too long is cut to 85 % and tried again: down to a seventh of the estimate."""

VERSION = 1
"""Of prompt and parsing, for cache keys."""


def answer_tokens(config: RolloutConfig, max_model_len: int) -> int:
    """Tokens kept for the answer: a quarter of the context, and no more than an RLM tree may write."""
    return min(config.max_tokens, max_model_len // 4)


async def answer(query: Query, sample: int, policy: Policy, config: RolloutConfig, *, max_model_len: int) -> Rollout:
    """One call. A reply that is no JSON list is still judged, by its lines, as the answer of a tree out of turns.

    Prompts are cut by an estimate of tokens, then shorter while the policy says `PromptTooLong`. A failing policy fails
    the tree.
    """
    assert query.context is not None, f"query {query.id} has no context; attach_context first"
    start = time.monotonic()
    reserved = answer_tokens(config, max_model_len)
    sampling = Sampling(
        config.temperature, config.top_p, reserved, derive_seed(config.seed, "full_context", query.id, sample)
    )
    base = Rollout(id=f"{query.id}.{sample}", query_id=query.id, question=query.question, policy=policy_name(policy))
    room = max_model_len - reserved - count_tokens(SYSTEM + query.question) - 64
    for _ in range(ATTEMPTS):
        context, share = fit(query.context, max(room, 16))
        opening = (("system", SYSTEM), ("user", f"{context}\n\nQuestion: {query.question}"))
        messages = [Message("system", SYSTEM), Message("user", opening[1][1])]
        try:
            action = await policy.act(messages, sampling)
        except PromptTooLong:
            room = int(room * SHRINK)
            continue
        except PolicyError as error:
            return dataclasses.replace(base, opening=opening, status=Status.FAILED, failure=str(error))
        return _finished(base, sample, opening, action, share, time.monotonic() - start)
    return dataclasses.replace(base, status=Status.FAILED, failure=f"the prompt did not fit after {ATTEMPTS} cuts")


def _finished(
    base: Rollout, sample: int, opening: tuple[tuple[str, str], ...], action: Action, share: float, seconds: float
) -> Rollout:
    passages, is_list = read_answer(action.text)
    cut = action.finish_reason == "length"
    error = ErrorClass.LENGTH if cut else ErrorClass.NONE if is_list else ErrorClass.FORMAT
    turn = Turn(
        text=action.text,
        prompt_ids=action.prompt_ids,
        completion_ids=action.completion_ids,
        logprobs=action.logprobs,
        error=error,
        finish_reason=action.finish_reason,
        model_seconds=action.seconds,
        weights_version=action.weights_version,
    )
    usage = Usage(
        prompt_tokens=action.prompt_tokens or len(action.prompt_ids),
        completion_tokens=action.completion_tokens or len(action.completion_ids),
        model_calls=1,
        turns=1,
        model_seconds=action.seconds,
        wall_seconds=seconds,
    )
    return dataclasses.replace(
        base,
        opening=opening,
        turns=(turn,),
        answer=passages,
        status=Status.ANSWERED if is_list else Status.OUT_OF_TURNS,
        usage=usage,
        provenance={"sample": sample, "share_read": share},
    )


def fit(context: Context, budget: int) -> tuple[str, float]:
    """The context as one text of at most about `budget` tokens, and the share of its characters that is in it.

    Papers get equal room; what a short one leaves is shared out among the others. Each is cut at its end.
    """
    papers = {"": {"title": "", "text": context}} if isinstance(context, str) else context
    texts = {paper_id: f"# {paper['title']}\n{paper['text']}" for paper_id, paper in papers.items()}
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
