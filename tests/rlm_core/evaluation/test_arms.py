"""Arms, retrieval and the long-context baseline."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from rlm_core.evaluation.arms import describe, order_of, plan_arms, settings_of, weights_digest
from rlm_core.evaluation.benchmarks.item import count_tokens
from rlm_core.evaluation.full_context import answer
from rlm_core.evaluation.reading import fit, read_answer, shares
from rlm_core.evaluation.retrieval import PassageIndex, Retriever, split_passages
from rlm_core.params import ArmParams, EndpointParams, TeachParams
from rlm_core.policies.base import Action, Message, PolicyError, PromptTooLong, Sampling
from rlm_core.records import ErrorClass, Evidence, Query, Status
from rlm_core.rollouts import RolloutConfig

NORTH = "The drought of nineteen twelve emptied the northern reservoirs."
SOUTH = "Rainfall in the southern basin doubled within eleven years."
BARLEY = "Farmers of the region planted barley because it needs little water."


def query(text: str = f"{BARLEY} {NORTH} {SOUTH}", **changes: Any) -> Query:
    context = {"p1": {"title": "Waters", "abstract": "", "text": text}}
    return Query(
        "q1", "What did the drought do to the northern reservoirs?", paper_ids=("p1",), context=context,
        evidence=(Evidence("p1", NORTH),), **changes,
    )  # fmt: skip


# ---- plans


def test_plans_take_the_best_model_and_keep_models_together():
    plans = plan_arms(["no_subcalls", "base", "bm25_topk", "full_context", "sft"], ["base", "sft"])
    assert [(p.name, p.harness, p.model) for p in plans] == [
        ("base", "rlm", "base"),
        ("no_subcalls", "rlm", "sft"),
        ("full_context", "full_context", "sft"),
        ("sft", "rlm", "sft"),
        ("bm25_topk", "bm25", None),
    ]


def test_plans_without_a_model_are_named():
    with pytest.raises(ValueError, match="there is no grpo model; known: base"):
        plan_arms(["grpo"], ["base"])
    with pytest.raises(ValueError, match="arm full_context: no model to run it with"):
        plan_arms(["full_context"], [])
    assert [p.name for p in plan_arms(["expert", "bm25_topk"], [])] == ["expert", "bm25_topk"]


def test_any_policy_is_an_arm_with_and_without_recursion_and_strategy():
    endpoint = EndpointParams(base_url="http://localhost:1/v1", model="big")
    arms = [
        ArmParams(name="big", policy="endpoint", endpoint=endpoint, context_tokens=9000),
        ArmParams(name="plain-grpo", policy="grpo", recursion=False, strategy=False, temperature=0.0),
        ArmParams(name="expert-alone", policy="expert", recursion=False),
        "codeact",
    ]
    plans = {plan.name: plan for plan in plan_arms(arms, ["base", "grpo"])}
    common = RolloutConfig(strategy=True, temperature=1.0)
    assert (plans["big"].endpoint, plans["big"].model, plans["big"].context_tokens) == (endpoint, None, 9000)
    assert describe(plans["big"], {}) == "big"
    assert settings_of(plans["big"], common) == {
        "harness": "rlm", "actor": "endpoint", "recursion": True, "strategy": True, "temperature": 1.0
    }  # fmt: skip
    own = plans["plain-grpo"].config(common)
    assert (own.strategy, own.max_depth, own.max_children, own.temperature) == (False, 0, 0, 0.0)
    assert settings_of(plans["expert-alone"], common) == {
        "harness": "rlm", "actor": "expert", "recursion": False, "strategy": True, "temperature": None
    }  # fmt: skip
    assert settings_of(plans["codeact"], common) == {
        "harness": "codeact", "actor": "grpo", "recursion": None, "strategy": None, "temperature": 1.0
    }  # fmt: skip


def test_the_teacher_is_an_arm_as_it_taught():
    (scripted,) = plan_arms(["teacher"], [], teach=TeachParams(noise=0.15))
    assert (scripted.actor, scripted.noise) == ("expert", 0.15)
    assert describe(scripted, {}) == "none (scripted, 15% noise)"
    endpoint = EndpointParams(base_url="http://localhost:1/v1", model="big")
    (model,) = plan_arms(["teacher"], [], teach=TeachParams(policy="endpoint", endpoint=endpoint))
    assert (model.actor, model.endpoint, describe(model, {})) == ("endpoint", endpoint, "big")


def test_further_temperatures_stand_after_their_arm():
    arms = ["sft", "expert", "grpo", ArmParams(name="sft_tuned", policy="sft")]
    plans = plan_arms(arms, ["base", "sft", "grpo"], [0.0, 0.5])
    assert order_of(plans, arms) == [
        "sft", "sft_t0", "sft_t0.5", "expert", "grpo", "grpo_t0", "grpo_t0.5", "sft_tuned"
    ]  # fmt: skip
    greedy = next(plan for plan in plans if plan.name == "grpo_t0")
    assert (greedy.is_further, greedy.model, greedy.config(RolloutConfig()).temperature) == (True, "grpo", 0.0)
    with pytest.raises(ValueError, match="two arms are called sft_t0"):
        plan_arms(["sft", ArmParams(name="sft_t0", policy="sft")], ["sft"], [0.0])


def test_the_arm_without_subcalls_allows_and_mentions_none():
    from rlm_core.prompts import Allowance, Task, opening

    (plan,) = plan_arms(["no_subcalls"], ["base"])
    config = plan.config(RolloutConfig(prompt="plain"))
    assert (config.max_depth, config.max_children, config.max_children_per_call) == (0, 0, 0)
    text = str(opening(Task("Why?", {"p1": {"text": "x"}, "p2": {"text": "y"}}), config.style, Allowance(0, 0)))
    assert "llm_query" not in text
    assert "rlm_query" not in text


def test_the_digest_of_weights_follows_content_and_names(tmp_path):
    for folder, data in (("a", "1"), ("b", "1"), ("c", "2")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "model.safetensors").write_text(data)
    a, b, c = (weights_digest(tmp_path / name) for name in "abc")
    assert a == b != c
    (tmp_path / "b" / "model.safetensors").rename(tmp_path / "b" / "other.safetensors")
    assert weights_digest(tmp_path / "b") != a


# ---- BM25


@given(st.text(st.sampled_from("ab .\n"), max_size=300), st.integers(5, 60))
def test_passages_hold_every_letter_once(text, chars):
    passages = split_passages(text, chars)
    assert "".join("".join(passages).split()) == "".join(text.split())
    assert all(passage.strip() and len(passage) <= chars for passage in passages)


def test_passages_end_with_sentences():
    assert split_passages(f"{NORTH} {SOUTH} {BARLEY}", 130) == [f"{NORTH} {SOUTH}", BARLEY]


def test_bm25_ranks_the_passage_with_the_rarer_words_first():
    index = PassageIndex({"p": {"text": f"{BARLEY} {NORTH} {SOUTH}"}}, 70)
    assert index.top("What emptied the northern reservoirs?", 1) == [NORTH]
    assert index.top("What emptied the northern reservoirs?", 9)[0] == NORTH
    assert len(index.top("words that stand nowhere", 2)) == 2
    assert PassageIndex("", 70).top("anything", 3) == []


def test_k_is_the_best_on_validation_and_the_smaller_on_ties():
    text = f"{BARLEY} {NORTH} {SOUTH}" * 6
    choice = Retriever().choose([query(text)])
    # passages of 300 characters hold the evidence among four other sentences: one is best, more only adds
    assert (choice.k, choice.passage_chars, choice.num_queries) == (1, 300, 1)
    found = Retriever().answer(query(text), 0, choice)
    assert NORTH in found.answer[0]
    assert (found.id, found.status, found.usage.prompt_tokens) == ("q1.0", Status.ANSWERED, 0)


def test_k_is_never_chosen_without_validation():
    with pytest.raises(ValueError, match="must not be chosen on the test"):
        Retriever().choose([])


# ---- full context


class Endpoint:
    """Answers `reply`; says that prompts over `limit` tokens are too long."""

    name = "endpoint"

    def __init__(self, reply: str | Exception, limit: int = 10**9, finish_reason: str = "stop") -> None:
        self.reply, self.limit, self.finish_reason = reply, limit, finish_reason
        self.prompts: list[str] = []
        self.samplings: list[Sampling] = []

    async def act(self, messages: Sequence[Message | Mapping[str, Any]], sampling: Sampling) -> Action:
        text = "\n".join(m.content for m in messages if isinstance(m, Message))
        self.prompts.append(text)
        self.samplings.append(sampling)
        if count_tokens(text) > self.limit:
            raise PromptTooLong("too long")
        if isinstance(self.reply, Exception):
            raise self.reply
        return Action(self.reply, prompt_tokens=7, completion_tokens=3, finish_reason=self.finish_reason)


CONFIG = RolloutConfig(temperature=0.0)


async def test_a_list_is_an_answer():
    endpoint = Endpoint(json.dumps([NORTH]))
    rollout = await answer(query(), 2, endpoint, CONFIG, max_model_len=2048)
    assert (rollout.id, rollout.answer, rollout.status) == ("q1.2", [NORTH], Status.ANSWERED)
    assert (rollout.usage.prompt_tokens, rollout.usage.completion_tokens, rollout.usage.model_calls) == (7, 3, 1)
    assert rollout.provenance == {"sample": 2, "share_read": 1.0}
    assert endpoint.samplings[0].max_tokens == 512  # a quarter of the context
    assert NORTH in endpoint.prompts[0]
    assert query().question in endpoint.prompts[0]


async def test_prose_is_judged_by_its_lines_but_is_no_success():
    rollout = await answer(query(), 0, Endpoint(f"Here:\n- {NORTH}\n2. {SOUTH}"), CONFIG, max_model_len=2048)
    assert (rollout.answer, rollout.status) == (["Here:", NORTH, SOUTH], Status.OUT_OF_TURNS)
    assert rollout.turns[0].error is ErrorClass.FORMAT


async def test_a_prompt_that_does_not_fit_is_cut_until_it_does():
    long = query(f"{BARLEY} " * 400)
    endpoint = Endpoint("[]", limit=700)
    rollout = await answer(long, 0, endpoint, CONFIG, max_model_len=2048)
    assert rollout.status is Status.ANSWERED
    lengths = [count_tokens(p) for p in endpoint.prompts]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[-1] <= 700 < lengths[-2]
    assert rollout.provenance["share_read"] < 0.2


async def test_failures_of_the_endpoint_are_no_answers():
    rollout = await answer(query(), 0, Endpoint(PolicyError("refused")), CONFIG, max_model_len=2048)
    assert (rollout.status, rollout.failure, rollout.answer) == (Status.FAILED, "PolicyError: refused", None)
    rollout = await answer(query(), 0, Endpoint("[]", limit=1), CONFIG, max_model_len=2048)
    assert rollout.status is Status.FAILED


async def test_a_cut_reply_is_recorded_as_such():
    rollout = await answer(query(), 0, Endpoint('["The drought', finish_reason="length"), CONFIG, max_model_len=2048)
    assert rollout.turns[0].error is ErrorClass.LENGTH
    assert rollout.status is Status.OUT_OF_TURNS


@pytest.mark.parametrize(
    ("reply", "passages", "is_list"),
    [
        ('["a", "b"]', ["a", "b"], True),
        ("[]", [], True),
        ('Sure:\n```json\n["a"]\n```', ["a"], True),
        ('As [1] says: ["a [x]"] done', ["a [x]"], True),
        ("[1, 2]", ["[1, 2]"], False),
        ('- "a"\n\n* b\n3) c', ["a", "b", "c"], False),
        ("", [], False),
    ],
)
def test_replies(reply, passages, is_list):
    assert read_answer(reply) == (passages, is_list)


def test_room_is_shared_out_equally_and_short_papers_leave_theirs():
    assert shares({"a": 10, "b": 100, "c": 100}, 110) == {"a": 10, "b": 50, "c": 50}
    assert shares({"a": 10, "b": 20}, 100) == {"a": 10, "b": 20}


@given(st.dictionaries(st.text("abc", min_size=1), st.integers(0, 50), min_size=1), st.integers(0, 200))
def test_shares_never_exceed_need_or_budget(need, budget):
    room = shares(need, budget)
    assert sum(room.values()) <= budget
    assert all(0 <= room[key] <= need[key] for key in need)
    assert sum(room.values()) == min(budget, sum(need.values()))


def test_a_context_that_fits_is_read_whole():
    text, share = fit({"p1": {"title": "A", "text": "one two"}, "p2": {"title": "B", "text": "three"}}, 100)
    assert (text, share) == ("# A\none two\n\n# B\nthree", 1.0)
    cut, share = fit("word " * 100, 50)
    assert count_tokens(cut) <= 55
    assert share == approx(0.5, abs=0.05)
