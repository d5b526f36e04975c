"""The scripted expert through the real loop and the real REPL: what it finds, that it reads nothing else, its mistakes."""

from __future__ import annotations

import dataclasses
import doctest
from collections import Counter
from typing import Any

import pytest

from rlm_core.policies import ChatRenderer, ExpertPolicy, PolicyError, Sampling, expert_phrases
from rlm_core.policies.expert_phrases import key_phrases
from rlm_core.prompts import Allowance, PromptStyle, Task, opening
from rlm_core.records import ErrorClass, Evidence, Query, Rollout, Status
from rlm_core.rollouts import RolloutConfig, messages_at, run_rollout, run_rollouts

FILLER = "Plants were watered every morning and weighed once a week by two people. " * 3
SUBJECTS = ("stomatal conductance", "chlorophyll content", "root biomass", "leaf temperature")
COMPACT = RolloutConfig(prompt="compact", max_turns=4, max_depth=1, max_children_per_call=4, max_children=12)


def make_paper(number: int) -> dict[str, str]:
    """A paper with a paragraph on each of its subjects; every paper but the last has one on drought."""
    paragraphs = [f"Paper {number} begins here. {FILLER}"]
    paragraphs += [f"We measured {subject} in trial {number}, and it rose by {number} percent." for subject in SUBJECTS]
    if number < 5:
        paragraphs.append(f"Under drought stress the yield of trial {number} fell to a half, as expected.")
    paragraphs.append(f"In sum the trial went well. {FILLER}")
    return {"title": f"Trial {number}", "abstract": f"Trial {number}.", "text": "\n\n".join(paragraphs)}


LIBRARY = {f"paper{n}": make_paper(n) for n in range(6)}


def single(subject: str, number: int = 3) -> Query:
    key = f"paper{number}"
    return Query(
        id=f"{subject}-{number}",
        question=f"What does the paper report about {subject} when it comes to trial {number}?",
        context={key: LIBRARY[key]},
    )


MULTI = Query(
    id="multi", question="Which of these papers discuss drought stress, and in which passages?", context=LIBRARY
)


def test_search_terms_come_from_the_question() -> None:
    assert doctest.testmod(expert_phrases).failed == 0
    assert key_phrases("What does the paper say about basil oil?")[0] == "basil oil"
    assert key_phrases("Which passage links DNA repair to heat shock?")[:3] == [
        "DNA repair heat shock",
        "DNA repair",
        "heat shock",
    ]
    assert key_phrases('Where is "the model of record" used?')[0] == "the model of record"
    assert (
        key_phrases("Show the passage on female rats that also mentions vaginal smear.")[0]
        == "female rats vaginal smear"
    )
    assert key_phrases("What is it about?") == []


@pytest.mark.parametrize("prompt", ["compact", "plain", "warn-subcalls"])
@pytest.mark.parametrize("cue", ["kept", "ephemeral"])
async def test_one_paper_search_then_answer(prompt: str, cue: str) -> None:
    config = dataclasses.replace(COMPACT, prompt=prompt, cue=cue)  # type: ignore[arg-type]
    rollout = await run_rollout(single("root biomass"), ExpertPolicy(), config)
    assert (rollout.status, len(rollout.turns), len(rollout.answer)) == (Status.ANSWERED, 2, 1)
    assert "We measured root biomass in trial 3, and it rose by 3 percent." in rollout.answer[0]
    assert 'search("root biomass trial 3")' in rollout.turns[0].text
    assert {t.error for t in rollout.turns} == {ErrorClass.NONE}


@pytest.mark.parametrize("prompt", ["compact", "plain"])
async def test_several_papers_ask_a_child_for_each(prompt: str) -> None:
    config = dataclasses.replace(COMPACT, prompt=prompt)  # type: ignore[arg-type]
    rollout = await run_rollout(MULTI, ExpertPolicy(), config)
    assert rollout.status is Status.ANSWERED
    assert len(rollout.turns) == 3
    assert [c.parent_turn for c in rollout.children] == [1] * 6  # one call of 4, one of 2
    assert [c.answer for c in rollout.children][5] == []  # the last paper has nothing: said so
    assert len(rollout.answer) == 5
    for number, passage in enumerate(rollout.answer):
        assert f"the yield of trial {number} fell" in passage
    assert {t.error for n in rollout.walk() for t in n.turns} == {ErrorClass.NONE}


async def test_without_children_it_reads_all_papers_itself() -> None:
    rollout = await run_rollout(MULTI, ExpertPolicy(), dataclasses.replace(COMPACT, max_depth=0))
    assert (rollout.children, len(rollout.answer)) == ((), 4)  # one passage of each paper that it printed
    assert all("Under drought stress" in passage for passage in rollout.answer)


async def test_nothing_found_is_an_empty_answer() -> None:
    query = Query(id="q", question="Where are quasars?", context={"p": {"title": "", "abstract": "", "text": "zz zz"}})
    rollout = await run_rollout(query, ExpertPolicy(), COMPACT)
    assert (rollout.status, rollout.answer) == (Status.ANSWERED, [])


@pytest.mark.parametrize("max_turns", [1, 2, 3])
async def test_it_ends_within_few_turns(max_turns: int) -> None:
    config = dataclasses.replace(COMPACT, max_turns=max_turns)
    for query in (single("leaf temperature"), MULTI):
        rollout = await run_rollout(query, ExpertPolicy(), config)
        assert rollout.status in (Status.ANSWERED, Status.OUT_OF_TURNS)
        assert isinstance(rollout.answer, list)


async def test_it_never_reads_the_gold() -> None:
    gold = (Evidence("paper3", "something else entirely"),)
    with_gold = await run_rollout(dataclasses.replace(single("root biomass"), evidence=gold), ExpertPolicy(), COMPACT)
    without = await run_rollout(single("root biomass"), ExpertPolicy(), COMPACT)
    assert texts(with_gold) == texts(without)


def texts(rollout: Rollout) -> list[str]:
    return [turn.text for node in rollout.walk() for turn in node.turns]


async def test_noise_is_a_share_of_turns_and_the_same_every_time() -> None:
    queries = [single(subject, number) for subject in SUBJECTS for number in range(5)]
    clean = await run_rollouts(queries, ExpertPolicy(), COMPACT, samples=4)
    noisy = [await run_rollouts(queries, ExpertPolicy(0.3, seed=5), COMPACT, samples=4) for _ in range(2)]
    assert [texts(r) for r in noisy[0]] == [texts(r) for r in noisy[1]]
    other = await run_rollouts(queries, ExpertPolicy(0.3, seed=6), COMPACT, samples=4)
    assert [texts(r) for r in other] != [texts(r) for r in noisy[0]]

    right = {texts(r)[0]: texts(r) for r in clean}
    first = [texts(r)[0] for r in noisy[0]]
    wrong = sum(text not in right for text in first) / len(first)
    assert 0.15 < wrong < 0.45  # 80 first turns, each spoilt with 0.3
    errors = Counter(t.error for r in noisy[0] for t in r.turns)
    assert errors[ErrorClass.CODE] >= 3
    assert errors[ErrorClass.FORMAT] >= 1
    # after a mistake that it is shown, it goes on and ends well
    mended = [r for r in noisy[0] if r.turns[0].error is ErrorClass.CODE and r.answer and r.status is Status.ANSWERED]
    assert any("it rose by" in str(r.answer) for r in mended)
    assert any(isinstance(r.answer, str) for r in noisy[0])  # FINAL("hits[0]"): an answer slip for `distill` to find


async def test_a_renderer_fills_in_the_exact_tokens(renderer: ChatRenderer) -> None:
    rollout = await run_rollout(MULTI, ExpertPolicy(renderer=renderer), COMPACT)
    for node in rollout.walk():
        for index, turn in enumerate(node.turns):
            assert turn.prompt_ids == renderer.prompt_ids(messages_at(node, index))
            assert renderer.decode(turn.completion_ids) == turn.text
            assert turn.logprobs == ()
        # kept cues: each prompt extends the one before it, token by token
        for before, after in zip(node.turns, node.turns[1:], strict=False):
            read = before.prompt_ids + before.completion_ids
            assert after.prompt_ids[: len(read)] == read
    usage = rollout.usage
    every = [turn for node in rollout.walk() for turn in node.turns]
    assert usage.prompt_tokens == sum(len(t.prompt_ids) for t in every)
    assert usage.completion_tokens == sum(len(t.completion_ids) for t in every)


def test_a_dialogue_fits_a_small_model(renderer: ChatRenderer) -> None:
    """The compact system prompt in SmolLM2's tokens, and the first prompt with a question."""
    sizes = {}
    for name, context, child in (
        ("single", {"p": make_paper(1)}, False),
        ("child", {"p": make_paper(1)}, True),
        ("multi", LIBRARY, False),
    ):
        messages = opening(
            Task(MULTI.question, context, is_child=child),
            PromptStyle("compact", max_prompts_per_call=4),
            Allowance(12, 1),
        )
        sizes[name] = len(renderer.prompt_ids([{"role": r, "content": c} for r, c in messages]))
    assert sizes["single"] < 150
    assert sizes["child"] < 170
    assert sizes["multi"] < 190


async def test_other_conversations_are_refused() -> None:
    for messages in ([], [{"role": "user", "content": "Say hello"}], [{"role": "system", "content": "s"}]):
        with pytest.raises(PolicyError, match="answers no plain prompts"):
            await ExpertPolicy().act(messages, Sampling())
    with pytest.raises(ValueError, match="share of turns, 0 to 1, got 2"):
        ExpertPolicy(noise=2)


async def test_quotes_in_a_question_survive() -> None:
    text = 'They call it "self-play" here, and they say it\'s useful.'
    context: Any = {"p": {"title": "", "abstract": "", "text": f"{FILLER}\n\n{text}\n\n{FILLER}"}, **LIBRARY}
    query = Query(id="q", question='What do they say of "self-play"?', context=context)
    rollout = await run_rollout(query, ExpertPolicy(), COMPACT)
    assert {t.error for n in rollout.walk() for t in n.turns} == {ErrorClass.NONE}
    assert any("self-play" in passage for passage in rollout.answer)
