"""Blocks of one session: variables, errors, modules, tools, reserved names, output."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from rlm_core.records import ErrorClass
from rlm_core.repl import ExecutionResult, ReplLimits

Run = Callable[..., Awaitable[list[ExecutionResult]]]
RunOne = Callable[..., Awaitable[ExecutionResult]]

PAPERS = {
    "p1": {"title": "On mice", "abstract": "Mice were fed.", "text": "Introduction. Mice were fed with grain daily."},
    "p2": {"title": "On rats", "abstract": "Rats were fed.", "text": "Introduction. Rats were fed with rice weekly."},
}


async def test_variables_stay_and_the_last_expression_is_echoed(run: Run) -> None:
    first, second, third = await run("x = 2\nprint('set')", "x * 21", "None")
    assert (first.stdout, second.stdout, third.stdout) == ("set\n", "42\n", "")


async def test_variables_before_an_exception_stay_and_the_traceback_shows_the_codes_own_frames(run: Run) -> None:
    result, after = await run("x = 1\ndef f(n):\n    return n / 0\nf(x)\ny = 2", "x, 'y' in globals()")
    assert result.error == (
        "Traceback:\n  block 1, line 4: f(x)\n  block 1, line 3 in f: return n / 0\nZeroDivisionError: division by zero"
    )
    assert result.error_class is ErrorClass.CODE
    assert after.stdout == "(1, False)\n"


async def test_a_syntax_error_shows_the_line(run_one: RunOne) -> None:
    result = await run_one("x = (1,\ny = 2")
    assert result.error is not None
    assert "SyntaxError: '(' was never closed" in result.error
    assert "x = (1," in result.error


async def test_a_deep_traceback_is_short(run_one: RunOne) -> None:
    result = await run_one("def f(n):\n    return f(n + 1)\nf(0)")
    assert result.error is not None
    assert len(result.error.splitlines()) == 7  # heading, first frame, "... more calls", 3 frames, message
    assert "more calls" in result.error


async def test_the_usual_modules_are_there_and_others_can_be_imported(run_one: RunOne) -> None:
    result = await run_one("import csv, sqlite3, hashlib\nre.findall('a', 'aa'), math.floor(1.5), json.dumps([1])")
    assert result.stdout == "(['a', 'a'], 1, '[1]')\n"


async def test_randomness_and_the_order_of_sets_repeat(run_one: RunOne) -> None:
    code = "import random\n(random.random(), [hash('a'), list({'a', 'b', 'c', 'd'})])"
    assert (await run_one(code)).stdout == (await run_one(code)).stdout


async def test_dataclasses_and_pickles_of_own_classes_work(run_one: RunOne) -> None:
    code = "import pickle, dataclasses\n@dataclasses.dataclass\nclass A: x: int\npickle.loads(pickle.dumps(A(1)))"
    assert (await run_one(code)).stdout == "A(x=1)\n"


async def test_the_scratch_folder_is_private_and_writable(run_one: RunOne) -> None:
    code = "import os, tempfile\nopen('note', 'w').write('hi')\n"
    code += "with tempfile.NamedTemporaryFile() as f: pass\nprint(os.getcwd(), os.listdir())"
    assert (await run_one(code)).stdout == "/scratch/own ['note']\n"
    assert (await run_one("import os\nos.listdir()")).stdout == "[]\n"


async def test_tools_and_context_are_there(run_one: RunOne) -> None:
    result = await run_one(
        "list_papers(), get_paper_abstract('p1'), context['p2']['title'], len(search('rice'))", context=PAPERS
    )
    assert result.error is None
    assert "On mice" in result.stdout
    assert "'On rats', 1)" in result.stdout


async def test_reserved_names_are_put_back_and_the_code_is_told(run: Run) -> None:
    result, after = await run(
        "context = 'mine'\nsearch = FINAL = None\nimport builtins\nbuiltins.len = None", "len(context), FINAL(1)"
    )
    assert "[reserved, put back: context, search, FINAL; use other names]" in result.stdout
    assert (after.stdout, after.final) == ("(4, None)\n", 1)


@pytest.mark.parametrize(
    ("limit", "printed", "shown"),
    [
        (0, "", ""),
        (0, "abc", "[... 3 characters cut ...]"),
        (1, "a", "a"),
        (1, "ab", "a\n[... 1 characters cut ...]"),
        (4, "abcd", "abcd"),
        (4, "abcde", "ab\n[... 1 characters cut ...]\nde"),
        (5, "abcdefgh", "abc\n[... 3 characters cut ...]\ngh"),
    ],
)
async def test_output_keeps_head_and_tail(run_one: RunOne, limit: int, printed: str, shown: str) -> None:
    limits = ReplLimits(output_chars=limit)
    assert (await run_one(f"print({printed!r}, end='')", limits=limits)).stdout == shown


async def test_output_is_of_its_own_block_and_both_streams(run: Run) -> None:
    first, second = await run(
        "import sys, os\nprint('a')\nprint('b', file=sys.stderr)\nos.write(1, b'c')", "print('d')"
    )
    assert first.stdout == "a\nb\n1\nc"
    assert second.stdout == "d\n"
