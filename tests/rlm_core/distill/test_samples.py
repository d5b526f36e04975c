"""Rows have the exact tokens, and the report adds up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from rlm_core.distill import distil, split_rows, turn_rows
from rlm_core.distill.repair import known_variables, mend_turn
from rlm_core.distill.samples import SftRow, prefix_breaks
from rlm_core.params import DistillParams
from rlm_core.policies import ChatRenderer
from rlm_core.records import ErrorClass, Judgement, Query, Rollout, Turn

Make = Callable[..., Rollout]
LOOK = "```python\nfound = search('gold')\nprint(found)\n```"
ANSWER = "```python\nFINAL_VAR('found')\n```"


def test_rows_hold_what_the_student_reads_and_extend_each_other(make_teacher: Make, renderer: ChatRenderer):
    rows = turn_rows(make_teacher(LOOK, ANSWER), renderer, reward=0.9, query_id="q1")
    text = renderer.tokenizer.decode(rows[1].prompt_ids)
    assert text == (
        "<|im_start|>system\nYou read papers.<|im_end|>\n"
        "<|im_start|>user\nQuestion: What holds?\n\nTurn 1 of 4<|im_end|>\n"
        f"<|im_start|>assistant\n{LOOK}<|im_end|>\n"
        "<|im_start|>user\nprinted 0\n\nTurn 2 of 4<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    assert renderer.tokenizer.decode(rows[1].completion_ids) == f"{ANSWER}<|im_end|>"
    assert rows[0].completion_ids[-1] == renderer.end_of_turn_id
    assert prefix_breaks(rows) == 0
    head = (*rows[0].prompt_ids, *rows[0].completion_ids)
    assert rows[1].prompt_ids[: len(head)] == head
    assert (rows[1].role, rows[1].turn, rows[1].reward, rows[1].query_id) == ("root", 1, 0.9, "q1")


def test_an_ephemeral_cue_is_in_no_later_prompt(make_teacher: Make, renderer: ChatRenderer):
    rows = turn_rows(make_teacher(LOOK, ANSWER, cue_kept=False), renderer, reward=1.0, query_id="q1")
    assert "Turn 1 of 4" not in renderer.tokenizer.decode(rows[1].prompt_ids)
    assert prefix_breaks(rows) == 1


def test_ids_of_the_students_tokenizer_are_used_and_others_are_not(make_teacher: Make, renderer: ChatRenderer):
    tree = make_teacher(LOOK, ANSWER)
    # Another way to write the same text: one token a character, as a model might have sampled it.
    own = tuple(t for c in ANSWER for t in renderer.tokenizer.encode(c, add_special_tokens=False))
    assert own != renderer.completion_ids(ANSWER)[:-1] and renderer.decode(own) == ANSWER
    sampled = replace(tree, turns=(tree.turns[0], replace(tree.turns[1], completion_ids=own)))
    assert turn_rows(sampled, renderer, reward=1.0, query_id="q1")[1].completion_ids == (*own, renderer.end_of_turn_id)
    foreign = replace(tree, turns=(tree.turns[0], replace(tree.turns[1], completion_ids=(200_000, 5))))
    assert turn_rows(foreign, renderer, reward=1.0, query_id="q1")[1].completion_ids == renderer.completion_ids(ANSWER)


@pytest.mark.parametrize(
    ("text", "error", "expected"),
    [
        (ANSWER, ErrorClass.NONE, (ANSWER, (), None)),
        ("FINAL(found)", ErrorClass.NONE, ("FINAL_VAR(found)", ("final_of_variable_name",), None)),
        ("```python\nprint(FINAL(found))\n```", ErrorClass.NONE, ("```python\nFINAL(found)\n```", ("final_in_print",), None)),
        ("I think so.", ErrorClass.FORMAT, ("I think so.", (), "format_error")),
        ("```python\n1/0\n```", ErrorClass.CODE, ("```python\n1/0\n```", (), "repl_error")),
        ("```python\nx = 1\n```", ErrorClass.LIMIT, ("```python\nx = 1\n```", (), "repl_error")),
        ("```python\nx = 1\n```", ErrorClass.BUDGET, ("```python\nx = 1\n```", (), "repl_error")),
        ("```python\nx = (", ErrorClass.LENGTH, ("```python\nx = (", (), "length_cut")),
        ("```python\nx = (\n```", ErrorClass.NONE, ("```python\nx = (\n```", (), "format_error")),
    ],
)  # fmt: skip
def test_turns_are_mended_or_dropped(make_teacher: Make, text: str, error: ErrorClass, expected: tuple[object, ...]):
    mended = mend_turn(make_teacher(LOOK, (text, error)), 1)
    assert (mended.text, mended.kinds, mended.reason) == expected


def test_variables_are_those_that_earlier_turns_assigned():
    turns = (
        Turn("```python\na = 1\nfor b in []: pass\n```"),
        Turn("no code"),
        Turn("```python\nif (c := 2: pass\n```"),
    )
    assert known_variables(turns) == {"a", "b"}


def test_the_report_adds_up(make_teacher: Make, renderer: ChatRenderer, query: Query):
    slip = make_teacher(LOOK, "FINAL(found)", id="q1.1")
    error = make_teacher(LOOK, ("```python\n1/0\n```", ErrorClass.CODE), ANSWER, id="q1.2")
    trees = [make_teacher(LOOK, ANSWER), slip, error, make_teacher(ANSWER, id="q1.3")]
    verdicts = [Judgement(10, 10, 1.0)] * 4
    distilled = distil(trees, verdicts, {"q1": query}, renderer, DistillParams())
    report = distilled.report
    assert report["trees"] == {"read": 4, "kept": 3}
    # turns: 2 + 2 + 3 = 7; dropped: one error; the first turn of trees 2 and 3 repeats tree 1's
    assert report["turns"] == {"of_kept_nodes": 7, "kept": 4}
    dropped = {row["name"]: row["dropped"] for row in report["filters"]}
    assert dropped["single_turn"] == 1 and dropped["repl_error"] == 1 and dropped["duplicate"] == 2
    assert report["repair"]["share_final_slips"] == pytest.approx(1 / 7)
    assert report["repair"]["kinds"] == {"final_of_variable_name": 1}
    assert report["rows"]["tokens"] == sum(r.num_tokens for r in distilled.rows)
    assert report["before"]["turns_a_tree"] == 2.0 and report["after"]["turns_a_tree"] == pytest.approx(7 / 3)
    assert report["before"]["turn_errors"] == {"none": 7, "code": 1}
    # The turn after the error is learned from, with the error in what it reads.
    assert any("1/0" in renderer.tokenizer.decode(r.prompt_ids) for r in distilled.rows)
    assert not any("1/0" in renderer.tokenizer.decode(r.completion_ids) for r in distilled.rows)


def test_long_rows_are_dropped(make_teacher: Make, renderer: ChatRenderer, query: Query):
    rows = turn_rows(make_teacher(LOOK, ANSWER), renderer, reward=1.0, query_id="q1")
    limit = DistillParams().model_copy(update={"max_row_tokens": rows[0].num_tokens})
    distilled = distil([make_teacher(LOOK, ANSWER)], [Judgement(10, 10, 1.0)], {"q1": query}, renderer, limit)
    assert [r.turn for r in distilled.rows] == [0]


def row(query_id: str) -> SftRow:
    return SftRow((1,), (2,), f"{query_id}.0", 0, "root", 1.0, query_id)


def test_validation_rows_are_those_of_validation_queries_else_some_held_out():
    rows = [row(f"q{i % 40}") for i in range(80)]
    train, val = split_rows(rows, {"q3", "q5", "elsewhere"}, seed=0)
    assert {r.query_id for r in val} == {"q3", "q5"} and len(train) == 76
    train, val = split_rows(rows, set(), seed=0)
    assert len({r.query_id for r in val}) == 2  # 5 % of 40
    assert not {r.query_id for r in train} & {r.query_id for r in val}
    assert split_rows(rows, set(), seed=0) == (train, val)
    assert split_rows([row("q0")], set(), seed=0) == ([row("q0")], [])
