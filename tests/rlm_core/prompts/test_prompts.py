"""What a policy is shown: only what it may do, only what is true, and the same at any later look."""

from __future__ import annotations

import inspect
import re
from itertools import product
from typing import Any

import pytest

from rlm_core.papers.tools import make_tools
from rlm_core.policies.base import Message
from rlm_core.prompts import (
    Allowance,
    PromptStyle,
    Task,
    build_messages,
    cue,
    describe,
    functions_for,
    messages_at,
    opening,
)
from rlm_core.prompts.functions import ANSWERS, ASKING, PAPER_TOOLS, RECURSING
from rlm_core.records import Rollout, Turn
from rlm_core.repl import Repl

ONE = {"p1": {"title": "On basil", "abstract": "", "text": "x" * 1500}}
THREE = {f"p{i}": {"title": f"Paper {i}", "abstract": "", "text": "text"} for i in range(3)}
CONTEXTS: dict[str, Any] = {"single": ONE, "multi": THREE, "text": "a long text", "table": {"a": 1}}
FULL = Allowance(subcalls=12, depth_left=2)
NONE = Allowance()


def system_of(context: Any, style: PromptStyle, allowance: Allowance, *, child: bool = False) -> str:
    return opening(Task("where?", context, is_child=child), style, allowance)[0][1]


def test_functions_are_described_by_their_own_signature_and_docstring() -> None:
    tools = make_tools(THREE)
    for function in PAPER_TOOLS:
        real = tools[function.name]
        assert function.summary == (inspect.getdoc(real) or "").split("\n")[0]
        assert list(inspect.signature(real).parameters) == re.findall(r"(\w+)(?:=[^,)]+)?[,)]", function.signature)
    assert str(PAPER_TOOLS[1]).startswith("search(keyword, paper=None, window=300): Return")
    with pytest.raises(ValueError, match="bare has no docstring"):
        describe(bare)


def bare() -> None:
    pass


async def test_the_repl_has_exactly_the_functions_that_prompts_describe() -> None:
    """Signature and summary as the code itself would find them inside the sandbox."""
    described = (*PAPER_TOOLS, *ASKING, *RECURSING, *ANSWERS)
    names = [function.name for function in described]
    code = f"""
import inspect
found = {{}}
for name in {names!r}:
    function = globals()[name]
    parameters = [p.replace(annotation=p.empty) for p in inspect.signature(function).parameters.values()]
    signature = str(inspect.signature(function).replace(parameters=parameters, return_annotation=inspect.Signature.empty))
    found[name] = [name + signature, inspect.getdoc(function).split("\\n")[0]]
FINAL(found)"""
    async with Repl.open(ONE) as repl:
        result = await repl.execute(code)
    assert result.error is None
    assert result.final == {function.name: [function.signature, function.summary] for function in described}


@pytest.mark.parametrize("variant", ["plain", "warn-subcalls", "compact"])
def test_limits_in_a_prompt_are_those_of_the_config(variant: str) -> None:
    style = PromptStyle(variant, max_turns=7, max_tokens_per_turn=321, output_chars=4321, max_prompts_per_call=5)  # type: ignore[arg-type]
    system = system_of(THREE, style, FULL)
    numbers = set(
        re.findall(r"\d[\d,]*", re.sub(r"window=\d+|up to 8 passages|first 1000 characters|window=1200", "", system))
    )
    if variant == "compact":
        assert numbers == {"5"}
    else:
        assert {"7", "321", "4,321", "5", "12", "2"} <= numbers
        steps = {"1", "2", "3", "4"}
        assert numbers <= {"7", "321", "4,321", "5", "12", "2"} | steps
    fewer = system_of(THREE, style, Allowance(subcalls=3, depth_left=1))
    assert "at most 3 a call" in fewer  # not the 5 of the config


@pytest.mark.parametrize(
    ("variant", "strategy", "context", "child"),
    list(product(["plain", "warn-subcalls", "compact"], [True, False], CONTEXTS, [True, False])),
)
def test_a_prompt_names_only_what_is_allowed(variant: str, strategy: bool, context: str, child: bool) -> None:
    style = PromptStyle(variant, strategy)  # type: ignore[arg-type]
    task = Task("where?", CONTEXTS[context], is_child=child)
    for allowance in (FULL, Allowance(subcalls=4, depth_left=0), NONE):
        system, user = (content for _, content in opening(task, style, allowance))
        for function in RECURSING:
            assert function.name not in system or allowance.may_recurse(style)
        for function in ASKING:
            assert function.name not in system or allowance.may_ask(style)
        if variant != "compact":
            for function in (*PAPER_TOOLS, *ANSWERS):
                assert str(function) in system
            assert all(str(f) in system for f in functions_for(task, style, allowance))
        assert ("How to go about it" in system) == (strategy and variant != "compact")
        assert ("IMPORTANT: sub-calls are slow" in system) == (variant == "warn-subcalls" and allowance.may_ask(style))
        assert user.startswith("Question: where?")
        assert "  " not in system


def test_the_task_is_described() -> None:
    style = PromptStyle()
    user = opening(Task("where?", ONE), style, NONE)[1][1]
    assert "1 paper, 1,500 characters of text:\np1: On basil" in user
    assert "`context` is a str of 11 characters." in opening(Task("?", "a long text"), style, NONE)[1][1]
    many = {f"p{i}": {"title": "T", "text": ""} for i in range(25)}
    assert "... and 5 more: list_papers() gives them all" in opening(Task("?", many), style, NONE)[1][1]
    assert opening(Task("where?", ONE), PromptStyle("compact"), NONE)[1] == ("user", "Question: where?")
    assert "asked by another model" in system_of(ONE, style, NONE, child=True)
    assert "empty list" in system_of(ONE, PromptStyle("compact"), NONE, child=True)


def test_the_compact_prompt_is_small() -> None:
    for context, child in ((ONE, False), (ONE, True), (THREE, False)):
        system = system_of(context, PromptStyle("compact", max_prompts_per_call=4), FULL, child=child)
        assert len(system.split()) < 110  # about 107 to 139 tokens of SmolLM2
        assert len(system) < 700


def test_cues() -> None:
    assert [cue(t, 3) for t in range(3)] == ["Turn 1 of 3", "Turn 2 of 3", "Turn 3 of 3: answer now"]
    assert cue(0, 1) == "Turn 1 of 1"


def make_rollout(*, kept: bool) -> Rollout:
    turns = (
        Turn("a", "seen a", completion_ids=(7, 8), cue="Turn 1 of 3"),
        Turn("b", "seen b", completion_ids=(9,), cue="Turn 2 of 3"),
        Turn("c", "", cue="Turn 3 of 3: answer now"),
    )
    return Rollout("r", opening=(("system", "S"), ("user", "Q")), cue_kept=kept, turns=turns)


def test_kept_cues_stay_and_ephemeral_ones_go() -> None:
    kept = messages_at(make_rollout(kept=True), 2)
    assert [(m.role, m.content) for m in kept] == [
        ("system", "S"),
        ("user", "Q\n\nTurn 1 of 3"),
        ("assistant", "a"),
        ("user", "seen a\n\nTurn 2 of 3"),
        ("assistant", "b"),
        ("user", "seen b\n\nTurn 3 of 3: answer now"),
    ]
    assert [m.token_ids for m in kept] == [None, None, (7, 8), None, (9,), None]
    ephemeral = messages_at(make_rollout(kept=False), 2)
    assert [m.content for m in ephemeral] == ["S", "Q", "a", "seen a", "b", "seen b\n\nTurn 3 of 3: answer now"]
    # kept: every earlier prompt is a prefix of the later one
    for turn in (0, 1):
        earlier = messages_at(make_rollout(kept=True), turn)
        assert kept[: len(earlier)] == earlier


def test_a_rollout_stored_without_its_opening_is_refused() -> None:
    with pytest.raises(ValueError, match="opening must end with a user message"):
        messages_at(Rollout("r", turns=(Turn("a"),)), 0)
    with pytest.raises(IndexError):
        messages_at(make_rollout(kept=True), 3)
    assert build_messages((("user", "Q"),), [], "", cue_kept=True) == [Message("user", "Q")]
