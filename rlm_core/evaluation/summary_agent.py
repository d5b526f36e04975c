"""The compaction baseline: the papers are read in pieces, and the notes on them are written anew after each piece.

As the RLM paper describes its summary agent (arXiv 2512.24601, appendix C.2): an input larger than the context is cut into
pieces, the model compacts what matters after each, and answers from its notes. Nothing runs code here.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections import deque

from rlm_core.evaluation.benchmarks.item import count_tokens
from rlm_core.evaluation.reading import answer_tokens, read_answer, texts_of, turn_of, usage_of
from rlm_core.evaluation.retrieval import split_passages
from rlm_core.policies.base import Action, Message, Policy, PolicyError, PromptTooLong, Sampling, policy_name
from rlm_core.records import Context, ErrorClass, Query, Rollout, Status, Turn, Usage
from rlm_core.rollouts import RolloutConfig, derive_seed

READ = (
    "You read papers piece by piece to find evidence for a question. You are shown your notes and the next piece. Write the "
    "notes anew: every passage of the notes and of the piece that may be evidence, copied word for word, a line each, and "
    "nothing else. Leave out what is no evidence. If there is none, write: none"
)
ANSWER = (
    "These are your notes on papers that you read. Choose the passages that are evidence for the question and copy them word "
    "for word. Answer with a JSON list of strings and nothing else."
)
SMALLEST = 200
"""Characters of a piece that is not halved any more when it does not fit."""
READING_SHARE = 0.9
"""Of the tree's time and tokens; the rest is kept for the answer."""

VERSION = 1
"""Of prompts, pieces and parsing, for cache keys."""


async def answer(query: Query, sample: int, policy: Policy, config: RolloutConfig, *, max_model_len: int) -> Rollout:
    """Read, compact, answer. `provenance["share_read"]` is the share of the text that was read within tokens and time.

    A last reply that is no JSON list is judged by its lines, as the answer of a tree out of turns. A failing policy fails
    the tree; a tree whose time is up before an answer is out of budget.
    """
    assert query.context is not None, f"query {query.id} has no context; attach_context first"
    agent = _Agent(query, sample, policy, config, answer_tokens(config.max_tokens, max_model_len))
    try:
        async with asyncio.timeout(config.wall_seconds):
            return await agent.run(pieces(query.context, agent.piece_tokens(max_model_len)))
    except TimeoutError:
        return agent.ended(Status.OUT_OF_BUDGET, "the time is up")
    except PolicyError as error:
        return agent.ended(Status.FAILED, f"{type(error).__name__}: {error}")


def pieces(context: Context, tokens: int) -> list[str]:
    """The papers one after another in pieces of about `tokens`, cut where sentences end; no piece spans two papers."""
    found = []
    for text in texts_of(context).values():
        chars = max(SMALLEST, int(len(text) * tokens / max(1, count_tokens(text))))
        found += split_passages(text, chars)
    return found


class _Agent:
    """One run: the notes so far, the calls so far."""

    def __init__(self, query: Query, sample: int, policy: Policy, config: RolloutConfig, reply_tokens: int) -> None:
        self._query, self._sample, self._policy, self._config = query, sample, policy, config
        self._reply_tokens = reply_tokens
        self._start = time.monotonic()
        self._turns: list[Turn] = []
        self._usage = Usage()
        self._notes = "none"
        self._read = self._total = 0

    def piece_tokens(self, max_model_len: int) -> int:
        """What is left of the context beside the prompt, the notes and the reply."""
        fixed = count_tokens(READ + self._query.question) + 64
        return max(64, max_model_len - fixed - 2 * self._reply_tokens)

    async def run(self, to_read: list[str]) -> Rollout:
        left = deque(to_read)
        self._total = sum(map(len, to_read))
        while left and self._may_read_on():
            piece = left.popleft()
            try:
                action = await self._ask(READ, f"Notes:\n{self._notes}\n\nNext piece:\n{piece}", "read")
            except PromptTooLong:
                if len(piece) <= SMALLEST:
                    raise
                half = len(piece) // 2
                left.extendleft((piece[half:], piece[:half]))
                continue
            self._notes = action.text.strip() or "none"
            self._read += len(piece)
        action = await self._ask(ANSWER, f"Notes:\n{self._notes}", "answer")
        passages, is_list = read_answer(action.text)
        if not is_list:
            self._turns[-1] = turn_of(action, cue="answer", error=ErrorClass.FORMAT)
        status = Status.ANSWERED if is_list else Status.OUT_OF_TURNS
        return dataclasses.replace(self.ended(status), answer=passages)

    def _may_read_on(self) -> bool:
        config = self._config
        tokens = self._usage.completion_tokens + self._reply_tokens <= READING_SHARE * config.max_tokens
        return tokens and time.monotonic() - self._start < READING_SHARE * config.wall_seconds

    async def _ask(self, system: str, text: str, cue: str) -> Action:
        config, number = self._config, len(self._turns)
        seed = derive_seed(config.seed, "summary_agent", self._query.id, self._sample, number)
        left = max(1, config.max_tokens - self._usage.completion_tokens)
        sampling = Sampling(config.temperature, config.top_p, min(self._reply_tokens, left), seed)
        user = f"Question: {self._query.question}\n\n{text}"
        action = await self._policy.act([Message("system", system), Message("user", user)], sampling)
        self._turns.append(turn_of(action, cue=cue))
        self._usage = self._usage.plus(usage_of(action))
        return action

    def ended(self, status: Status, failure: str = "") -> Rollout:
        """The record of what was done so far."""
        seconds = time.monotonic() - self._start
        return Rollout(
            id=f"{self._query.id}.{self._sample}",
            query_id=self._query.id,
            question=self._query.question,
            opening=(("system", READ), ("user", f"Question: {self._query.question}")),
            turns=tuple(self._turns),
            status=status,
            failure=failure,
            usage=dataclasses.replace(self._usage, wall_seconds=seconds),
            policy=policy_name(self._policy),
            provenance={"sample": self._sample, "share_read": self._read / self._total if self._total else 1.0},
        )
