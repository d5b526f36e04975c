"""The loop of one node: what a model did, what it is shown, how it ends."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from rlm_core.policies.base import Action, PolicyError, PromptTooLong
from rlm_core.prompts import feedback as say
from rlm_core.records import ErrorClass, Query, Status
from rlm_core.rollouts import Event, Rollout, RolloutConfig, derive_seed, failures, messages_at, run_rollout

CONFIG = RolloutConfig(max_turns=4, wall_seconds=30)
MakeScript = Callable[..., Any]


def turn(code: str) -> str:
    """A completion that is one code block."""
    return f"```python\n{code}\n```"


async def test_variables_stay_and_final_ends(make_script: MakeScript) -> None:
    policy = make_script([turn("x = 2\nprint(x * 21)"), turn("FINAL(x)")])
    rollout = await run_rollout("where?", policy, CONFIG)
    assert (rollout.answer, rollout.status, rollout.id) == (2, Status.ANSWERED, "query.0")
    assert [t.observation for t in rollout.turns] == ["42", ""]
    assert [t.error for t in rollout.turns] == [ErrorClass.NONE] * 2
    assert [t.cue for t in rollout.turns] == ["Turn 1 of 4", "Turn 2 of 4"]
    assert rollout.turns[0].completion_ids == tuple(policy.scripts["*"][0].encode())
    assert len(rollout.turns[0].logprobs) == len(rollout.turns[0].completion_ids)
    assert rollout.usage.turns == rollout.usage.model_calls == 2
    assert rollout.usage.completion_tokens == 20
    assert rollout.usage.wall_seconds > 0
    assert failures(rollout) == []


async def test_the_default_config_works(make_script: MakeScript) -> None:
    rollout = await run_rollout("1 + 1?", make_script([turn("FINAL(1 + 1)")]), RolloutConfig())
    assert rollout.answer == 2
    assert Rollout.from_dict(rollout.to_dict()) == rollout


async def test_the_tools_read_the_context(make_script: MakeScript, query: Query) -> None:
    code = 'hits = search("beta result")\nprint(len(list_papers()))\nFINAL([hits[0]])'
    rollout = await run_rollout(query, make_script([turn(code)]), CONFIG)
    assert rollout.status is Status.ANSWERED, rollout
    assert "The beta result is 1." in rollout.answer[0]


async def test_an_answer_before_any_look_is_refused(make_script: MakeScript, query: Query) -> None:
    policy = make_script(["FINAL(42)", turn("y = 1"), "FINAL(the answer is y)"])
    rollout = await run_rollout(query, policy, CONFIG)
    assert rollout.turns[0].error is ErrorClass.ANSWER
    assert rollout.turns[0].observation == say.TOO_EARLY
    assert rollout.turns[1].observation == say.NO_OUTPUT
    assert rollout.answer == "the answer is y"


async def test_a_turn_without_code_is_told_so(make_script: MakeScript, query: Query) -> None:
    rollout = await run_rollout(query, make_script(["I will look.", turn("FINAL(1)")]), CONFIG)
    assert rollout.turns[0].error is ErrorClass.FORMAT
    assert "```python" in rollout.turns[0].observation
    assert rollout.answer == 1


async def test_an_exception_keeps_what_was_made_before(make_script: MakeScript, query: Query) -> None:
    policy = make_script([turn("a = 5\nb = undefined"), turn("FINAL(a)")])
    rollout = await run_rollout(query, policy, CONFIG)
    assert rollout.turns[0].error is ErrorClass.CODE
    assert "NameError" in rollout.turns[0].observation
    assert rollout.answer == 5


async def test_blocks_run_in_order_until_one_fails(make_script: MakeScript, query: Query) -> None:
    blocks = "\n".join([turn("print(1)"), "and", turn("print(2); 1 / 0"), turn("print(3)")])
    rollout = await run_rollout(query, make_script([blocks, turn("FINAL(0)")]), CONFIG)
    shown = rollout.turns[0].observation
    assert shown.startswith("1\n2\n")
    assert "ZeroDivisionError" in shown
    assert shown.endswith(say.NOT_RUN)
    assert "3\n" not in shown


async def test_long_output_of_several_blocks_is_cut_in_the_middle(make_script: MakeScript, query: Query) -> None:
    blocks = turn("print('a' * 150)") + "\n" + turn("print('b' * 150)")
    config = RolloutConfig(max_turns=2, output_chars=200)
    rollout = await run_rollout(query, make_script([blocks, turn("FINAL(0)")]), config)
    assert rollout.turns[0].observation == f"{'a' * 100}\n... (101 characters cut) ...\n{'b' * 100}"  # 150 + 1 + 150


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("FINAL(found)", ["p", "q"]),  # a variable that there is
        ("FINAL(found[1])", "q"),
        ("FINAL(Paris)", "Paris"),  # a name that is no variable is a word
        ("FINAL(42)", "42"),  # text stays text
        ("FINAL(p < 0.05 (n = 3))", "p < 0.05 (n = 3)"),
        ('FINAL("Paris")', "Paris"),
        ('FINAL(["a", "b"])', ["a", "b"]),
        ("FINAL_VAR(found)", ["p", "q"]),
        ('FINAL_VAR("found")', ["p", "q"]),
    ],
)
async def test_text_answers(make_script: MakeScript, query: Query, text: str, answer: object) -> None:
    policy = make_script([turn('found = ["p", "q"]'), text])
    rollout = await run_rollout(query, policy, CONFIG)
    assert (rollout.answer, rollout.status) == (answer, Status.ANSWERED)
    assert len(rollout.turns) == 2


async def test_a_missing_variable_is_an_answer_error_that_lists_those_there_are(
    make_script: MakeScript, query: Query
) -> None:
    policy = make_script([turn("found = 1"), 'FINAL_VAR("fond")', 'FINAL_VAR("found")'])
    rollout = await run_rollout(query, policy, CONFIG)
    assert rollout.turns[1].error is ErrorClass.ANSWER
    assert "found" in rollout.turns[1].observation
    assert rollout.answer == 1


async def test_out_of_turns_gets_one_more_call_and_a_flag(make_script: MakeScript, query: Query) -> None:
    policy = make_script([turn("x = 1"), turn("x = 2"), turn("FINAL(x)")])
    rollout = await run_rollout(query, policy, RolloutConfig(max_turns=2))
    assert (rollout.status, rollout.answer, len(rollout.turns)) == (Status.OUT_OF_TURNS, 2, 3)
    assert [t.cue for t in rollout.turns][1:] == [
        "Turn 2 of 2: answer now",
        "No turns are left. Answer now with FINAL(...).",
    ]


async def test_no_answer_in_the_last_call_leaves_none(make_script: MakeScript, query: Query) -> None:
    rollout = await run_rollout(query, make_script([turn("x = 1")] * 3), RolloutConfig(max_turns=2))
    assert (rollout.status, rollout.answer) == (Status.OUT_OF_TURNS, None)


async def test_a_failing_policy_fails_the_tree(make_script: MakeScript, query: Query, broken: PolicyError) -> None:
    rollout = await run_rollout(query, make_script([turn("x = 1"), broken]), CONFIG)
    assert (rollout.status, rollout.answer) == (Status.FAILED, None)
    assert rollout.failure == "PolicyError: connection refused"
    assert failures(rollout) == ["q.0: PolicyError: connection refused"]
    assert rollout.turns[0].text == turn("x = 1")  # what was paid for is kept


async def test_a_policy_that_raises_anything_fails_the_tree(make_script: MakeScript, query: Query) -> None:
    rollout = await run_rollout(query, make_script([ValueError("odd"), turn("FINAL(1)")]), CONFIG)
    assert rollout.status is Status.FAILED
    assert "ValueError: odd" in rollout.failure


async def test_a_prompt_too_long_drops_the_newest_output_and_asks_for_an_answer(
    make_script: MakeScript, query: Query
) -> None:
    class Narrow:
        name = "narrow"
        inner = make_script([turn("x = 7\nprint('long ' * 400)"), turn("FINAL(x)")])

        async def act(self, messages, sampling):  # type: ignore[no-untyped-def]
            if len(messages[-1].content) > 1000:
                raise PromptTooLong("1200 tokens of 1000")
            return await self.inner.act(messages, sampling)

    rollout = await run_rollout(query, Narrow(), CONFIG)
    assert (rollout.status, rollout.answer) == (Status.OUT_OF_BUDGET, 7)
    assert rollout.turns[0].observation == say.REMOVED
    assert (
        messages_at(rollout, 1)[-1].content
        == f"{say.REMOVED}\n\nThe prompt is at its limit. Answer now with FINAL(...)."
    )


async def test_an_opening_that_does_not_fit_is_out_of_budget(make_script: MakeScript, query: Query) -> None:
    rollout = await run_rollout(query, make_script([PromptTooLong("9000 of 2048 tokens")]), CONFIG)
    assert (rollout.status, rollout.turns, rollout.failure) == (Status.OUT_OF_BUDGET, (), "9000 of 2048 tokens")


async def test_spent_tokens_leave_one_last_call(make_script: MakeScript, query: Query) -> None:
    policy = make_script([turn("x = 3")] * 3 + [turn("FINAL(x)")], tokens=1000)
    config = RolloutConfig(max_turns=10, max_tokens_per_turn=100, max_tokens=400)
    rollout = await run_rollout(query, policy, config)
    # 100 are kept for the last call: turns of 100, 100, 100, then the last of 100
    assert [call[3].max_tokens for call in policy.calls] == [100, 100, 100, 100]
    assert (rollout.status, rollout.answer) == (Status.OUT_OF_BUDGET, 3)
    assert rollout.usage.completion_tokens == 400
    assert rollout.turns[-1].cue.startswith("The tokens are spent.")


async def test_a_slow_model_is_cut_at_the_wall_time(make_script: MakeScript, query: Query) -> None:
    policy = make_script([turn("FINAL(1)")], seconds=30)
    rollout = await run_rollout(query, policy, RolloutConfig(wall_seconds=0.5))
    assert (rollout.status, rollout.answer, rollout.failure) == (Status.OUT_OF_BUDGET, None, "the time is up")
    assert rollout.usage.wall_seconds < 5


async def test_a_cut_turn_says_so(make_script: MakeScript, query: Query) -> None:
    class Cut:
        name = "cut"
        inner = make_script([turn("print(1)"), turn("FINAL(2)")])

        async def act(self, messages, sampling):  # type: ignore[no-untyped-def]
            action = await self.inner.act(messages, sampling)
            return dataclasses.replace(action, finish_reason="length" if len(messages) == 2 else "stop")

    rollout = await run_rollout(query, Cut(), CONFIG)
    assert rollout.turns[0].error is ErrorClass.LENGTH
    assert rollout.turns[0].observation == "1\n(your turn was cut at 1024 tokens: write less)"
    assert rollout.turns[1].error is ErrorClass.NONE


async def test_a_block_cut_in_the_middle_is_not_run(make_script: MakeScript) -> None:
    class Cut:
        name = "cut"
        inner = make_script([turn("print(1)") + "\n```python\nprint(2)\nx = 1", turn("FINAL(x)"), "no"])

        async def act(self, messages, sampling):  # type: ignore[no-untyped-def]
            action = await self.inner.act(messages, sampling)
            return dataclasses.replace(action, finish_reason="length" if len(messages) == 2 else "stop")

    rollout = await run_rollout("?", Cut(), RolloutConfig(max_turns=2, max_tokens_per_turn=40))
    assert rollout.turns[0].observation == "1\n(your turn was cut at 40 tokens: write less)"
    assert "NameError" in rollout.turns[1].observation


@pytest.mark.parametrize("cue", ["kept", "ephemeral"])
async def test_messages_at_gives_what_the_policy_read(make_script: MakeScript, query: Query, cue: str) -> None:
    policy = make_script([turn("print('one')"), "no code", turn("print('two')"), turn("FINAL(3)")])
    rollout = await run_rollout(query, policy, RolloutConfig(max_turns=4, cue=cue))  # type: ignore[arg-type]
    rollout = Rollout.from_dict(rollout.to_dict())
    assert [messages_at(rollout, t) for t in range(4)] == [call[2] for call in policy.calls]
    last = [m.content for m in messages_at(rollout, 2)]
    assert ("one\n\nTurn 2 of 4" in last) == (cue == "kept")
    assert last[-1].endswith("\n\nTurn 3 of 4")
    assert messages_at(rollout, 2)[2].token_ids == rollout.turns[0].completion_ids
    with pytest.raises(IndexError, match="has 4 turns, no turn 4"):
        messages_at(rollout, 4)


async def test_every_call_has_its_own_seed(make_script: MakeScript, query: Query) -> None:
    policy = make_script([turn("x = 1"), turn("FINAL(x)")])
    for sample in (0, 1):
        await run_rollout(query, policy, RolloutConfig(seed=9), sample=sample)
    seeds = [call[3].seed for call in policy.calls]
    assert seeds == [derive_seed(9, f"q.{s}", t) for s in (0, 1) for t in (0, 1)]
    assert len(set(seeds)) == 4


async def test_an_observer_sees_the_tree_grow(make_script: MakeScript, query: Query) -> None:
    events: list[Event] = []
    policy = make_script({"where?": [turn('FINAL(rlm_query("part?"))')], "part?": [turn("print(1)"), turn("FINAL(2)")]})
    await run_rollout(query, policy, CONFIG, observer=events.append)
    kinds = [(e.kind, e.node_id) for e in events]
    child = [("cue", "q.0.0"), ("action", "q.0.0"), ("observation", "q.0.0")] * 2
    assert kinds == [
        ("node_start", "q.0"),
        ("cue", "q.0"),
        ("action", "q.0"),
        ("node_start", "q.0.0"),
        *child,
        ("node_end", "q.0.0"),
        ("observation", "q.0"),
        ("node_end", "q.0"),
    ]


async def test_all_that_a_policy_needs_is_act() -> None:
    class Answers:
        async def act(self, messages: Any, sampling: Any) -> Action:
            return Action(text=turn("FINAL(7)"))

    rollout = await run_rollout("where?", Answers(), CONFIG)  # type: ignore[arg-type]
    assert (rollout.answer, rollout.policy) == (7, "Answers")
    assert Rollout.from_dict(rollout.to_dict()) == rollout


@pytest.mark.parametrize("returned", [None, "FINAL(1)", 7, Action(text=None)])  # type: ignore[arg-type]
async def test_a_policy_that_returns_no_action_fails_the_tree(returned: Any) -> None:
    class Odd:
        name = "odd"

        async def act(self, messages: Any, sampling: Any) -> Any:
            return returned

    rollout = await run_rollout("where?", Odd(), CONFIG)
    assert (rollout.status, rollout.answer, rollout.turns) == (Status.FAILED, None, ())
    assert "policy odd must return an Action" in rollout.failure
