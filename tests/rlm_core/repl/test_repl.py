"""What a session does with code, answers, output and sub-calls."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from typing import Any

import pytest

from rlm_core.records import ErrorClass
from rlm_core.repl import (
    ExecutionResult,
    Repl,
    ReplLimits,
    SandboxUnavailable,
    SubcallError,
    forkserver,
    handover,
    shared_context,
    worker_handle,
)

PAPERS = {
    "p1": {"title": "On mice", "abstract": "Mice were fed.", "text": "Introduction. Mice were fed with grain daily."},
    "p2": {"title": "On rats", "abstract": "Rats were fed.", "text": "Introduction. Rats were fed with rice weekly."},
}


async def run(
    *blocks: str, context: Any = "text", limits: ReplLimits | None = None, subcalls: Any = None
) -> list[ExecutionResult]:
    async with Repl.open(context, limits or ReplLimits(wall_seconds=5), subcalls) as repl:
        return [await repl.execute(block) for block in blocks]


async def run_one(*blocks: str, **options: Any) -> ExecutionResult:
    return (await run(*blocks, **options))[-1]


# --- running ---------------------------------------------------------------------------------------------------------


async def test_variables_stay_and_the_last_expression_is_echoed() -> None:
    first, second, third = await run("x = 2\nprint('set')", "x * 21", "None")
    assert (first.stdout, second.stdout, third.stdout) == ("set\n", "42\n", "")


async def test_variables_before_an_exception_stay_and_the_traceback_shows_the_codes_own_frames() -> None:
    result, after = await run("x = 1\ndef f(n):\n    return n / 0\nf(x)\ny = 2", "x, 'y' in globals()")
    assert result.error == (
        "Traceback:\n  block 1, line 4: f(x)\n  block 1, line 3 in f: return n / 0\nZeroDivisionError: division by zero"
    )
    assert result.error_class is ErrorClass.CODE
    assert after.stdout == "(1, False)\n"


async def test_a_syntax_error_shows_the_line() -> None:
    result = await run_one("x = (1,\ny = 2")
    assert result.error is not None
    assert "SyntaxError: '(' was never closed" in result.error
    assert "x = (1," in result.error


async def test_a_deep_traceback_is_short() -> None:
    result = await run_one("def f(n):\n    return f(n + 1)\nf(0)")
    assert result.error is not None
    assert len(result.error.splitlines()) == 7  # heading, first frame, "... more calls", 3 frames, message
    assert "more calls" in result.error


async def test_the_usual_modules_are_there_and_others_can_be_imported() -> None:
    result = await run_one("import csv, sqlite3, hashlib\nre.findall('a', 'aa'), math.floor(1.5), json.dumps([1])")
    assert result.stdout == "(['a', 'a'], 1, '[1]')\n"


async def test_randomness_and_the_order_of_sets_repeat() -> None:
    code = "import random\n(random.random(), [hash('a'), list({'a', 'b', 'c', 'd'})])"
    assert (await run_one(code)).stdout == (await run_one(code)).stdout


async def test_dataclasses_and_pickles_of_own_classes_work() -> None:
    code = "import pickle, dataclasses\n@dataclasses.dataclass\nclass A: x: int\npickle.loads(pickle.dumps(A(1)))"
    assert (await run_one(code)).stdout == "A(x=1)\n"


async def test_the_scratch_folder_is_private_and_writable() -> None:
    code = "import os, tempfile\nopen('note', 'w').write('hi')\n"
    code += "with tempfile.NamedTemporaryFile() as f: pass\nprint(os.getcwd(), os.listdir())"
    assert (await run_one(code)).stdout == "/scratch/own ['note']\n"
    assert (await run_one("import os\nos.listdir()")).stdout == "[]\n"


async def test_tools_and_context_are_there() -> None:
    result = await run_one(
        "list_papers(), get_paper_abstract('p1'), context['p2']['title'], len(search('rice'))", context=PAPERS
    )
    assert result.error is None
    assert "On mice" in result.stdout
    assert "'On rats', 1)" in result.stdout


async def test_reserved_names_are_put_back_and_the_code_is_told() -> None:
    result, after = await run(
        "context = 'mine'\nsearch = FINAL = None\nimport builtins\nbuiltins.len = None", "len(context), FINAL(1)"
    )
    assert "[reserved, put back: context, search, FINAL; use other names]" in result.stdout
    assert (after.stdout, after.final) == ("(4, None)\n", 1)


# --- output ----------------------------------------------------------------------------------------------------------


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
async def test_output_keeps_head_and_tail(limit: int, printed: str, shown: str) -> None:
    limits = ReplLimits(output_chars=limit)
    assert (await run_one(f"print({printed!r}, end='')", limits=limits)).stdout == shown


async def test_output_is_of_its_own_block_and_both_streams() -> None:
    first, second = await run(
        "import sys, os\nprint('a')\nprint('b', file=sys.stderr)\nos.write(1, b'c')", "print('d')"
    )
    assert first.stdout == "a\nb\n1\nc"
    assert second.stdout == "d\n"


# --- answers ---------------------------------------------------------------------------------------------------------


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
async def test_answers(code: str, answer: Any) -> None:
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
async def test_refused_answers(code: str, message: str) -> None:
    result = await run_one(code, limits=ReplLimits(answer_chars=1000))
    assert (result.has_final, result.error_class) == (False, ErrorClass.ANSWER)
    assert result.error is not None
    assert message in result.error


async def test_an_answer_stands_though_the_block_fails_later_and_does_not_leak_into_the_next() -> None:
    result, after = await run("FINAL(1)\n1 / 0", "2")
    assert (result.has_final, result.final, result.error_class) == (True, 1, ErrorClass.CODE)
    assert (after.has_final, after.final) == (False, None)


# --- limits ----------------------------------------------------------------------------------------------------------


async def test_a_block_past_its_time_is_killed_and_the_next_starts_afresh() -> None:
    limits = ReplLimits(wall_seconds=0.3)
    kept, killed, after, later = await run("x = 1", "while True: pass", "'x' in globals(), context", "1", limits=limits)
    assert kept.error is None
    assert killed.killed
    assert killed.error == (
        "the block ran longer than 0.3 s and was stopped. All variables are lost; the next block starts a fresh REPL."
    )
    assert killed.error_class is ErrorClass.LIMIT
    assert 0.3 <= killed.seconds < 2
    assert after.stdout.endswith("(False, 'text')\n")
    assert after.stdout.startswith("[the REPL was restarted: variables of earlier blocks are gone")
    assert later.stdout == "1\n"


async def test_out_of_memory_is_an_exception_and_variables_stay() -> None:
    result, after = await run("x = 1\ny = bytearray(10**9)", "x")
    assert (result.error_class, result.killed, after.stdout) == (ErrorClass.LIMIT, False, "1\n")


async def test_a_context_that_does_not_fit_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="memory_mb=32"):
        async with Repl.open("x" * 40_000_000, limits=ReplLimits(memory_mb=32)):
            pass


async def test_a_large_context_arrives_whole() -> None:
    context = {"p": {"title": "t", "abstract": "", "text": "line é\n" * 2_000_000}}
    result = await run_one("len(context['p']['text']), context['p']['text'][-7:]", context=context)
    assert result.stdout == "(14000000, 'line é\\n')\n"


@pytest.mark.parametrize("context", [object(), {"a": object()}, {"a": b"x", "b": len}])
async def test_a_context_of_other_than_plain_data_is_refused(context: Any) -> None:
    with pytest.raises(ValueError, match="plain data"):
        async with Repl.open(context):
            pass


@pytest.mark.parametrize(
    "options", [{"wall_seconds": 0}, {"memory_mb": 1}, {"output_chars": -1}, {"files": 1.5}, {"threads": True}]
)
def test_limits_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        ReplLimits(**options)


# --- sub-calls -------------------------------------------------------------------------------------------------------


async def echo(name: str, arguments: dict[str, Any]) -> Any:
    if "prompts" in arguments:
        return [{"error": "too bad"} if p == "bad" else p.upper() for p in arguments["prompts"]]
    if arguments["prompt"] == "refuse":
        raise SubcallError("the budget of 3 children is spent; answer with what you have")
    return {"name": name, **arguments}


async def test_the_four_calls_arrive_with_their_arguments() -> None:
    code = "llm_query('a'), rlm_query('b', context={'k': 'v'}), "
    code += "llm_query_batched(['x', 'bad']), rlm_query_batched(['y'], ['c'])"
    result = await run_one(code, subcalls=echo)
    assert result.stdout == (
        "({'name': 'llm_query', 'prompt': 'a'}, {'name': 'rlm_query', 'prompt': 'b', 'context': {'k': 'v'}}, "
        "['X', {'error': 'too bad'}], ['Y'])\n"
    )


async def test_a_refusal_is_an_exception_that_code_can_catch() -> None:
    caught, uncaught = await run(
        "try: llm_query('refuse')\nexcept Exception as e: print('caught', e)", "llm_query('refuse')", subcalls=echo
    )
    assert caught.stdout == "caught the budget of 3 children is spent; answer with what you have\n"
    assert uncaught.error is not None
    assert uncaught.error.endswith("SubcallError: the budget of 3 children is spent; answer with what you have")
    assert uncaught.error_class is ErrorClass.BUDGET


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("llm_query(3)", "llm_query(prompt) takes a text, got int"),
        ("llm_query_batched('abc')", "takes a list of texts, got str"),
        ("rlm_query_batched(['a', 'b'], ['c'])", "2 prompts but 1 contexts"),
        ("rlm_query('a', context=3)", "takes a text or a dict, got int"),
        ("rlm_query('a', context={'x': {1, 2}})", "the arguments must be texts, numbers, lists and dicts"),
        ("llm_query('  ')", "the prompt is empty"),
        ("llm_query('x' * 2_000_000)", "bytes of arguments; at most"),
    ],
)
async def test_wrong_arguments_are_explained(code: str, message: str) -> None:
    result = await run_one(code, subcalls=echo, limits=ReplLimits(message_mb=1))
    assert result.error is not None
    assert message in result.error
    assert not result.killed


async def test_without_a_handler_the_calls_say_so() -> None:
    result = await run_one("llm_query('x')")
    assert result.error is not None
    assert "llm_query is not available in this REPL" in result.error


async def test_an_empty_batch_asks_nobody() -> None:
    assert (await run_one("rlm_query_batched([])")).stdout == "[]\n"


async def test_the_clock_stands_still_while_a_sub_call_is_awaited() -> None:
    async def slow(name: str, arguments: dict[str, Any]) -> str:
        await asyncio.sleep(1.2)
        return "late"

    waited, spun = await run(
        "llm_query('x')", "llm_query('x')\nwhile True: pass", limits=ReplLimits(wall_seconds=0.6), subcalls=slow
    )
    assert (waited.stdout, waited.killed) == ("'late'\n", False)
    assert waited.seconds < 0.6
    assert spun.killed


async def test_sub_calls_of_several_threads_run_at_once() -> None:
    running = 0
    most = 0

    async def count(name: str, arguments: dict[str, Any]) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.1)
        running -= 1
        return str(arguments["prompt"])

    code = "from concurrent.futures import ThreadPoolExecutor\n"
    code += "with ThreadPoolExecutor(5) as pool:\n    print(list(pool.map(llm_query, 'abcde')))"
    result = await run_one(code, subcalls=count)
    assert result.stdout == "['a', 'b', 'c', 'd', 'e']\n"
    assert most == 5


async def test_a_failing_harness_is_not_the_codes_error() -> None:
    async def broken(name: str, arguments: dict[str, Any]) -> str:
        raise ConnectionError("endpoint down")

    async with Repl.open("text", subcalls=broken) as repl:
        with pytest.raises(ConnectionError, match="endpoint down"):
            await repl.execute("try: llm_query('x')\nexcept Exception: FINAL('hidden')")
        assert "restarted" in (await repl.execute("1")).stdout


async def test_cancelling_kills_the_block_and_its_sub_calls() -> None:
    cancelled = asyncio.Event()

    async def never(name: str, arguments: dict[str, Any]) -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return ""

    async with Repl.open("text", subcalls=never) as repl:
        task = asyncio.create_task(repl.execute("llm_query('x')"))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert cancelled.is_set()
        assert repl.pid is None


# --- the session itself ----------------------------------------------------------------------------------------------


async def test_misuse_is_an_error_of_the_caller() -> None:
    repl = Repl.open("text")
    with pytest.raises(RuntimeError, match="not open"):
        await repl.execute("1")
    async with repl:
        first = asyncio.create_task(repl.execute("import time\ntime.sleep(0.2)"))
        await asyncio.sleep(0.05)
        with pytest.raises(RuntimeError, match="runs a block already"):
            await repl.execute("1")
        await first
    with pytest.raises(ValueError, match="sandbox must be"):
        Repl.open("text", sandbox="maybe")  # type: ignore[arg-type]


async def test_a_block_too_large_to_hand_over_is_refused_and_the_session_goes_on() -> None:
    result, after = await run("x = '" + "y" * 8_000_000 + "'", "1", limits=ReplLimits(message_mb=1))
    assert result.error is not None
    assert "the block was not run" in result.error
    assert after.stdout == "1\n"


async def test_without_a_sandbox_it_warns_on_every_open(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="rlm.repl"):
        for _ in range(2):
            async with Repl.open("text", sandbox="none") as repl:
                assert (await repl.execute("len(context)")).stdout == "4\n"
                assert (
                    await repl.execute("import subprocess\nsubprocess.run(['/bin/true']).returncode")
                ).stdout == "0\n"
    assert len([r for r in caplog.records if "unprotected" in r.message]) == 2


@pytest.mark.parametrize("missing", ["landlock", "seccomp"])
async def test_it_refuses_to_run_without_a_required_layer(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    server = await asyncio.to_thread(forkserver.ForkServer.start, sandbox=True, without=[missing])
    try:
        monkeypatch.setitem(forkserver._servers, True, server)
        with pytest.raises(SandboxUnavailable, match=f"{missing} is missing"):
            async with Repl.open("text"):
                pass
    finally:
        server.stop()


@pytest.mark.parametrize("without", [["namespaces"], ["own root"], ["own user"], ["namespaces", "own user"]])
async def test_the_required_layers_hold_alone(without: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extras there is no scratch folder, and perhaps no thread, but the same things are refused."""
    server = await asyncio.to_thread(forkserver.ForkServer.start, sandbox=True, without=without)
    try:
        assert server.report.full, server.report.explain()
        monkeypatch.setitem(forkserver._servers, True, server)
        async with Repl.open("text", ReplLimits(wall_seconds=5)) as repl:
            for attempt in (
                "open('/etc/passwd')",
                "open('/tmp/x', 'w')",
                "open('/proc/self/environ')",
                "import os; os.fork()",
            ):
                result = await repl.execute(attempt)
                assert result.error is not None, attempt
                assert "Error" in result.error
            assert (await repl.execute("import csv, sqlite3\nlen(context)")).stdout == "4\n"
    finally:
        server.stop()


async def test_a_dead_fork_server_is_replaced() -> None:
    async with Repl.open("text") as repl:
        server = await forkserver.get_async(sandbox=True)
        server._process.kill()
        result = await repl.execute("import time\ntime.sleep(5)")
        assert result.killed
        for _ in range(100):
            if not server.alive:
                break
            await asyncio.sleep(0.02)
        assert (await repl.execute("40 + 2")).stdout.endswith("42\n")


async def test_fifty_at_once() -> None:
    repls = [Repl.open(f"context {n}") for n in range(50)]
    start = time.monotonic()
    await asyncio.gather(*(repl.__aenter__() for repl in repls))
    try:
        results = await asyncio.gather(*(repl.execute("FINAL(context)") for repl in repls))
        assert [r.final for r in results] == [f"context {n}" for n in range(50)]
    finally:
        await asyncio.gather(*(repl.__aexit__(None, None, None) for repl in repls))
    assert time.monotonic() - start < 20


async def test_a_shared_context_is_packed_once_and_its_file_goes_with_the_last_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    packed: list[Any] = []
    write = handover._write_memory_file
    monkeypatch.setattr(handover, "_write_memory_file", lambda context: packed.append(context) or write(context))
    context, other = {"p": {"text": "shared"}}, {"p": {"text": "other"}}
    with shared_context(context):
        with shared_context(context):
            for _ in range(3):
                async with Repl.open(context) as repl:
                    assert (await repl.execute("context['p']['text']")).stdout == "'shared'\n"
        async with Repl.open(context) as repl, Repl.open(other) as stranger:
            assert (await stranger.execute("context['p']['text']")).stdout == "'other'\n"
    assert packed == [context, other]
    assert handover._shared == {}
    context["p"]["text"] = "changed"
    async with Repl.open(context) as repl:
        assert (await repl.execute("context['p']['text']")).stdout == "'changed'\n"


async def test_a_context_file_cannot_be_changed_by_whoever_holds_it() -> None:
    descriptor = await handover.memory_file("abc")
    try:
        for change in (lambda: os.pwrite(descriptor, b"x", 0), lambda: os.ftruncate(descriptor, 0)):
            with pytest.raises(PermissionError):
                change()
    finally:
        os.close(descriptor)


async def test_a_loop_over_refused_subcalls_is_stopped() -> None:
    asked = 0

    async def refuse(name: str, arguments: dict[str, Any]) -> Any:
        nonlocal asked
        asked += 1
        raise SubcallError("no sub-calls are left")

    code = "while True:\n    try: llm_query('again')\n    except Exception: pass"
    first, second = await run(code, "1 + 1", subcalls=refuse)
    assert first.killed
    assert first.error is not None
    assert "went on after 1000 refused sub-calls" in first.error
    assert asked == 1001
    assert second.stdout.endswith("2\n")


async def test_a_frame_in_tiny_pieces_does_not_keep_the_host_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = 0
    receive = worker_handle.WorkerHandle._receive

    def count(self: worker_handle.WorkerHandle) -> bytes:
        nonlocal readings
        readings += 1
        return receive(self)

    monkeypatch.setattr(worker_handle.WorkerHandle, "_receive", count)
    code = (
        "import os, stat, time\nchannel = next(n for n in range(3, 60) if stat.S_ISSOCK(os.fstat(n).st_mode))\n"
        "os.write(channel, (1 << 20).to_bytes(4, 'little'))\n"
        "while True:\n    os.write(channel, b' ')\n    time.sleep(0.0001)"
    )
    result = await run_one(code, limits=ReplLimits(wall_seconds=1))
    assert result.killed
    assert 20 < readings < 300  # one each 5 ms; without a rest some 5,000


async def test_a_context_of_very_many_values_is_refused_in_the_code() -> None:
    async def answer(name: str, arguments: dict[str, Any]) -> Any:
        return "served"

    code = "try:\n    rlm_query('x', {'rows': [[]] * 1_100_000})\nexcept RuntimeError as error:\n    print(error)"
    result = await run_one(code, subcalls=answer)
    assert result.stdout == "rlm_query: the context holds more than 1000000 values; hand it over as a text\n"
    assert (await run_one("rlm_query('x', {'a': ',[{' * 1_000_000})", subcalls=answer)).stdout == "'served'\n"
