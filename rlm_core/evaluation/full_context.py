"""The long-context baseline: one model call that reads as much of the papers as fits and answers with quoted passages."""

from __future__ import annotations

import dataclasses
import time

from rlm_core.evaluation.benchmarks.item import count_tokens
from rlm_core.evaluation.reading import ATTEMPTS, SHRINK, answer_tokens, fit, read_answer, turn_of, usage_of
from rlm_core.policies.base import Action, Message, Policy, PolicyError, PromptTooLong, Sampling, policy_name
from rlm_core.records import ErrorClass, Query, Rollout, Status
from rlm_core.rollouts import RolloutConfig, derive_seed

SYSTEM = (
    "Find the passages of the papers that are evidence for the question. Copy them word for word. "
    "Answer with a JSON list of strings and nothing else."
)

VERSION = 1
"""Of prompt and parsing, for cache keys."""


async def answer(query: Query, sample: int, policy: Policy, config: RolloutConfig, *, max_model_len: int) -> Rollout:
    """One call. A reply that is no JSON list is still judged, by its lines, as the answer of a tree out of turns.

    Prompts are cut by an estimate of tokens, then shorter while the policy says `PromptTooLong`. A failing policy fails
    the tree.
    """
    assert query.context is not None, f"query {query.id} has no context; attach_context first"
    start = time.monotonic()
    reserved = answer_tokens(config.max_tokens, max_model_len)
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
            return dataclasses.replace(
                base, opening=opening, status=Status.FAILED, failure=f"{type(error).__name__}: {error}"
            )
        return _finished(base, sample, opening, action, share, time.monotonic() - start)
    return dataclasses.replace(base, status=Status.FAILED, failure=f"the prompt did not fit after {ATTEMPTS} cuts")


def _finished(
    base: Rollout, sample: int, opening: tuple[tuple[str, str], ...], action: Action, share: float, seconds: float
) -> Rollout:
    passages, is_list = read_answer(action.text)
    return dataclasses.replace(
        base,
        opening=opening,
        turns=(turn_of(action, error=ErrorClass.NONE if is_list else ErrorClass.FORMAT),),
        answer=passages,
        status=Status.ANSWERED if is_list else Status.OUT_OF_TURNS,
        usage=dataclasses.replace(usage_of(action), wall_seconds=seconds),
        provenance={"sample": sample, "share_read": share},
    )
