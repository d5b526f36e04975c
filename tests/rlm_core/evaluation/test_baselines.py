"""CodeAct, CodeAct with BM25 and the summary agent: scripted models, the loop, the REPL and BM25 are real."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm_core.evaluation import codeact, summary_agent
from rlm_core.evaluation.arms import plan_arms
from rlm_core.evaluation.benchmarks.item import count_tokens
from rlm_core.evaluation.retrieval import PassageIndex
from rlm_core.params import ArmParams
from rlm_core.policies import ExpertPolicy
from rlm_core.policies.base import Action, Message, PolicyError, PromptTooLong, Sampling
from rlm_core.records import ErrorClass, Evidence, Query, Status
from rlm_core.rollouts import RolloutConfig, run_rollout

NORTH = "The drought of nineteen twelve emptied the northern reservoirs."
SOUTH = "Rainfall in the southern basin doubled within eleven years."
BARLEY = "Farmers of the region planted barley because it needs little water."
CONFIG = RolloutConfig(
    max_turns=3, max_tokens_per_turn=100, max_tokens=4000, output_chars=600, temperature=0.0, sandbox="none"
)


def query(text: str = f"{BARLEY} {NORTH} {SOUTH}", **more: str) -> Query:
    context = {
        key: {"title": f"Waters {key}", "abstract": "", "text": value} for key, value in {"p1": text, **more}.items()
    }
    question = "What did the drought do to the northern reservoirs?"
    return Query("q1", question, paper_ids=tuple(context), context=context, evidence=(Evidence("p1", NORTH),))


class Script:
    """Replies one after another (or by a function of the prompt); says that prompts over `limit` tokens are too long."""

    name = "script"

    def __init__(self, *replies: str | Callable[[str], str], limit: int = 10**9) -> None:
        self.replies, self.limit = list(replies), limit
        self.prompts: list[list[Message]] = []
        self.samplings: list[Sampling] = []

    async def act(self, messages: Sequence[Message | Mapping[str, Any]], sampling: Sampling) -> Action:
        self.prompts.append([m for m in messages if isinstance(m, Message)])
        self.samplings.append(sampling)
        text = "\n".join(m.content for m in self.prompts[-1])
        if count_tokens(text) > self.limit:
            raise PromptTooLong("too long")
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        return Action(reply if isinstance(reply, str) else reply(text), prompt_tokens=50, completion_tokens=10)


def code(*lines: str) -> str:
    return "\n".join(["```python", *lines, "```"])


# ---- CodeAct


async def test_codeact_has_the_text_in_its_prompt_and_an_empty_repl():
    script = Script(code("print(context == '', len(list_papers()[0]))"), code(f"FINAL([{NORTH!r}])"))
    rollout = await codeact.answer(query(), 2, script, CONFIG, max_model_len=4096)
    assert (rollout.id, rollout.answer, rollout.status) == ("q1.2", [NORTH], Status.ANSWERED)
    system, user = script.prompts[0]
    assert NORTH in user.content
    assert rollout.turns[0].observation.startswith("True")
    for name in ("search", "list_papers", "extract_section", "rlm_query", "llm_query", "retrieve", "child"):
        assert name not in system.content, name
    assert rollout.provenance["share_read"] == 1.0
    assert (rollout.usage.turns, rollout.usage.prompt_tokens, rollout.usage.children) == (2, 100, 0)


async def test_codeact_asks_nobody():
    script = Script(code("llm_query('help')"), code("rlm_query('help')"), "FINAL([])")
    rollout = await codeact.answer(query(), 0, script, CONFIG, max_model_len=4096)
    assert all("there is no such function" in turn.observation for turn in rollout.turns[:2])
    assert [turn.error for turn in rollout.turns[:2]] == [ErrorClass.CODE] * 2
    assert (rollout.answer, rollout.children) == ([], ())


async def test_codeact_cuts_the_text_until_the_first_prompt_fits():
    script = Script(code("FINAL([])"), limit=700)
    rollout = await codeact.answer(query(f"{BARLEY} " * 400), 0, script, CONFIG, max_model_len=2048)
    assert rollout.status is Status.ANSWERED
    lengths = [count_tokens("\n".join(m.content for m in prompt)) for prompt in script.prompts]
    assert lengths == sorted(lengths, reverse=True)
    assert len(lengths) > 1
    assert 0 < rollout.provenance["share_read"] < 0.2


async def test_codeact_that_never_fits_is_out_of_budget_and_no_answer():
    rollout = await codeact.answer(query(), 0, Script("FINAL([])", limit=1), CONFIG, max_model_len=2048)
    assert (rollout.status, rollout.answer, rollout.turns) == (Status.OUT_OF_BUDGET, None, ())


async def test_codeact_with_bm25_retrieves_from_papers_that_its_prompt_does_not_hold():
    asked = query(f"{BARLEY} {SOUTH} " * 5 + NORTH, p2=BARLEY)
    assert asked.context is not None
    script = Script(
        code("found = retrieve('drought emptied reservoirs', k=1)", "print(found)"),
        code("FINAL(found + retrieve('northern', 10**6)[:0])"),
    )
    index = PassageIndex(asked.context, 80)
    rollout = await codeact.answer(asked, 0, script, CONFIG, max_model_len=4096, index=index)
    assert rollout.answer == [NORTH]
    system, user = script.prompts[0]
    assert codeact.RETRIEVER.split('"""')[1] in system.content
    assert NORTH not in user.content
    assert "- Waters p1\n- Waters p2" in user.content
    assert rollout.provenance["share_read"] == 0.0


async def test_the_retriever_is_there_again_after_a_restart():
    asked = query()
    assert asked.context is not None
    script = Script(code("import os", "os._exit(1)"), code("FINAL(retrieve('drought', 1))"))
    rollout = await codeact.answer(asked, 0, script, CONFIG, max_model_len=4096, index=PassageIndex(asked.context, 80))
    assert rollout.turns[0].error is ErrorClass.LIMIT
    assert rollout.answer == [NORTH]


def test_a_benchmark_on_a_text_is_asked_for_its_own_form():
    text = codeact.system_prompt(Query("q", "How many?", context="lines"), CONFIG, retriever=False)
    assert "passages" not in text
    assert "the form that the question asks for" in text


# ---- the scripted expert, with and without recursion and strategy


@pytest.mark.parametrize("recursion", [True, False])
@pytest.mark.parametrize("strategy", [True, False])
async def test_the_expert_plays_every_setting(recursion, strategy):
    (plan,) = plan_arms([ArmParams(name="e", policy="expert", recursion=recursion, strategy=strategy)], [])
    asked = query(f"{BARLEY} {NORTH}", p2=f"{NORTH} {BARLEY}")
    rollout = await run_rollout(asked, ExpertPolicy(), plan.config(CONFIG))
    assert rollout.status is Status.ANSWERED
    assert len(rollout.children) == (2 if recursion else 0)
    assert len(rollout.answer) == 2
    assert all(NORTH in passage for passage in rollout.answer)


# ---- summary agent


def keep_notes(text: str) -> str:
    """Keeps every sentence with "drought"; answers with its notes."""
    lines = {part.strip() + "." for part in text.replace("\n", " ").split(".") if "drought of" in part}
    found = sorted(line[line.index("The drought") :] for line in lines)
    return json.dumps(found) if "your notes" in text else "\n".join(found) or "none"


async def test_the_summary_agent_reads_all_in_pieces_and_answers_from_its_notes():
    script = Script(keep_notes)
    asked = query(f"{BARLEY} " * 60 + NORTH + f" {SOUTH}" * 60, p2=f"{BARLEY} " * 30)
    rollout = await summary_agent.answer(asked, 1, script, CONFIG, max_model_len=1024)
    assert (rollout.id, rollout.answer, rollout.status) == ("q1.1", [NORTH], Status.ANSWERED)
    assert rollout.provenance == {"sample": 1, "share_read": 1.0}
    cues = [turn.cue for turn in rollout.turns]
    assert cues == ["read"] * (len(cues) - 1) + ["answer"]
    assert len(cues) > 3
    assert rollout.usage.model_calls == rollout.usage.turns == len(cues)
    assert rollout.usage.prompt_tokens == 50 * len(cues)
    assert max(count_tokens("\n".join(m.content for m in p)) for p in script.prompts) + 256 <= 1024
    assert len({sampling.seed for sampling in script.samplings}) == len(cues)


async def test_pieces_that_do_not_fit_are_halved():
    script = Script(keep_notes, limit=420)
    rollout = await summary_agent.answer(query(f"{BARLEY} " * 60 + NORTH), 0, script, CONFIG, max_model_len=1024)
    assert (rollout.answer, rollout.provenance["share_read"]) == ([NORTH], 1.0)
    rollout = await summary_agent.answer(query(), 0, Script("x", limit=5), CONFIG, max_model_len=1024)
    assert rollout.status is Status.FAILED


async def test_reading_stops_in_time_to_answer():
    short = dataclasses.replace(CONFIG, max_tokens=300)  # 256 a call; ten are used: four calls, then the answer
    rollout = await summary_agent.answer(query(f"{BARLEY} " * 400), 0, Script(keep_notes), short, max_model_len=1024)
    assert rollout.status is Status.ANSWERED
    assert 0 < rollout.provenance["share_read"] < 1
    assert rollout.usage.completion_tokens <= 300


async def test_prose_at_the_end_is_judged_by_its_lines_but_is_no_success():
    script = Script("none", f"Here:\n- {NORTH}")
    rollout = await summary_agent.answer(query(), 0, script, CONFIG, max_model_len=1024)
    assert (rollout.answer, rollout.status) == (["Here:", NORTH], Status.OUT_OF_TURNS)
    assert rollout.turns[-1].error is ErrorClass.FORMAT


async def test_failures_of_the_endpoint_and_of_time_are_no_answers():
    class Refusing(Script):
        async def act(self, messages: Any, sampling: Sampling) -> Action:
            raise PolicyError("refused")

    class Slow(Script):
        async def act(self, messages: Any, sampling: Sampling) -> Action:
            await asyncio.sleep(5)
            raise AssertionError

    rollout = await summary_agent.answer(query(), 0, Refusing("x"), CONFIG, max_model_len=1024)
    assert (rollout.status, rollout.failure, rollout.answer) == (Status.FAILED, "PolicyError: refused", None)
    hasty = dataclasses.replace(CONFIG, wall_seconds=0.05)
    rollout = await summary_agent.answer(query(), 0, Slow("x"), hasty, max_model_len=1024)
    assert (rollout.status, rollout.answer) == (Status.OUT_OF_BUDGET, None)


@given(st.text(st.sampled_from("ab .\n"), max_size=400), st.integers(64, 200))
def test_pieces_hold_every_letter_once(text, tokens):
    found = summary_agent.pieces({"p": {"title": "T", "text": text}}, tokens)
    assert "".join("".join(found).split()) == "#T" + "".join(text.split())
