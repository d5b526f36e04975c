"""FINAL and FINAL_VAR as code calls them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rlm_core.records import ErrorClass
from rlm_core.repl import ExecutionResult, ReplLimits

Run = Callable[..., Awaitable[list[ExecutionResult]]]
RunOne = Callable[..., Awaitable[ExecutionResult]]


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        ("FINAL('x')", "x"),
        ("FINAL(['a', 1, 2.5, None, True])", ["a", 1, 2.5, None, True]),
        ("FINAL(('a', ('b',)))", ["a", ["b"]]),
        ("FINAL({'b', 'a'})", ["a", "b"]),
        ("FINAL({1: 'x', None: {'y': ()}})", {"1": "x", "None": {"y": []}}),
        ("FINAL(x for x in 'ab')", ["a", "b"]),
        ("FINAL({'a': 1}.keys())", ["a"]),
        ("class S(str): pass\nFINAL([S('sub')])", ["sub"]),
        ("FINAL(None)", None),
        ("FINAL('')", ""),
        ("FINAL('é\\u4e2d')", "é中"),
        ("FINAL(1)\nFINAL(2)", 1),  # the first counts
        ("hits = [1]\nFINAL_VAR('hits')", [1]),
        ("hits = [1]\nFINAL_VAR(hits)", [1]),
        ("text = 'some words'\nFINAL_VAR(text)", "some words"),
        ("text = 'word'\nFINAL_VAR(text)", "word"),
        ("text = 'word'\nFINAL_VAR(' `text` ')", "word"),
        ("FINAL_VAR('no name but an answer')", "no name but an answer"),
        ("FINAL_VAR(1 + 1)", 2),
        ("FINAL(search('mice')[:1])", None),
    ],
)
async def test_answers(run_one: RunOne, code: str, answer: Any) -> None:
    result = await run_one(code)
    if code.startswith("FINAL(search"):
        answer = result.final
        assert all(type(item) is str for item in result.final)
    assert (result.has_final, result.final, result.error) == (True, answer, None)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("FINAL_VAR('nope')", "there is no variable 'nope'; there are no variables yet"),
        (
            "n = 1\nhits = []\nFINAL_VAR('nope')",
            "there is no variable 'nope'; variables there are: n (int), hits (list)",
        ),
        ("FINAL(object())", "the answer holds a object"),
        ("FINAL(b'x')", "the answer holds a bytes"),
        ("FINAL(float('nan'))", "the answer holds nan"),
        ("x = []\nx.append(x)\nFINAL(x)", "nested deeper than 50 levels"),
        ("FINAL('x' * 2000)", "longer than 1000 characters"),
        ("FINAL(range(10**9))", "longer than 1000 characters"),
        ("FINAL(10**5000)", "a number of more than 3000 digits"),
        ("FINAL({(1, 2): 3})", "a dict with a tuple as key"),
    ],
)
async def test_refused_answers(run_one: RunOne, code: str, message: str) -> None:
    result = await run_one(code, limits=ReplLimits(answer_chars=1000))
    assert (result.has_final, result.error_class) == (False, ErrorClass.ANSWER)
    assert result.error is not None
    assert message in result.error


async def test_an_answer_stands_though_the_block_fails_later_and_does_not_leak_into_the_next(run: Run) -> None:
    result, after = await run("FINAL(1)\n1 / 0", "2")
    assert (result.has_final, result.final, result.error_class) == (True, 1, ErrorClass.CODE)
    assert (after.has_final, after.final) == (False, None)
