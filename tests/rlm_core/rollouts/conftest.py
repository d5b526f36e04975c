"""A scripted model; the loop, the REPL and the sandbox in these tests are the real ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

import pytest

from rlm_core.policies.base import Action, Message, PolicyError, Sampling
from rlm_core.records import Query

Script = list["str | Exception"]


class ScriptPolicy:
    """Replays scripts, chosen by a node's question; which turn is due follows from the messages alone, so nodes may interleave.

    Fails loudly when a script runs dry. Records what it was sent.
    """

    name = "script"

    def __init__(self, scripts: Mapping[str, Script], *, seconds: float = 0.0, tokens: int = 10) -> None:
        self.scripts, self.seconds, self.tokens = scripts, seconds, tokens
        self.calls: list[tuple[str, int, list[Message], Sampling]] = []
        self.at_once = self.most_at_once = 0

    async def act(self, messages: Sequence[Message], sampling: Sampling) -> Action:
        messages = list(messages)
        first = next(m.content for m in messages if m.role == "user")
        question = first.split("Question: ", 1)[-1].split("\n\n")[0]
        index = sum(m.role == "assistant" for m in messages)
        self.calls.append((question, index, messages, sampling))
        script = self.scripts.get(question, self.scripts.get("*", []))
        if index >= len(script):
            raise AssertionError(f"the script of {question!r} has {len(script)} turns, turn {index} was asked for")
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.at_once -= 1
        reply = script[index]
        if isinstance(reply, Exception):
            raise reply
        ids = tuple(reply.encode())
        prompt_tokens = sum(len(m.content) for m in messages)
        return Action(
            reply,
            completion_ids=ids,
            logprobs=(-0.5,) * len(ids),
            prompt_tokens=prompt_tokens,
            completion_tokens=min(self.tokens, sampling.max_tokens),
        )


MakeScript = Callable[..., ScriptPolicy]


@pytest.fixture
def make_script() -> MakeScript:
    """`make_script([turn("x = 2"), turn("FINAL(x)")])`, or `{question: turns}` with "*" for all other questions."""

    def make(scripts: Script | Mapping[str, Script], **options: float) -> ScriptPolicy:
        return ScriptPolicy(scripts if isinstance(scripts, Mapping) else {"*": scripts}, **options)  # type: ignore[arg-type]

    return make


@pytest.fixture
def broken() -> PolicyError:
    return PolicyError("connection refused")


@pytest.fixture
def papers() -> dict[str, dict[str, str]]:
    """Three papers, each with one result of its own."""
    return {
        name: {
            "title": f"On {name}",
            "abstract": f"About {name}.",
            "text": f"Intro.\n\nThe {name} result is {number}.\n\nEnd.",
        }
        for number, name in enumerate(("alpha", "beta", "gamma"))
    }


@pytest.fixture
def query(papers: dict[str, dict[str, str]]) -> Query:
    return Query(id="q", question="where?", context=papers)
