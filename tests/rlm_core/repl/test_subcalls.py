"""llm_query and rlm_query: arguments, refusals, the clock, threads, failures, cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rlm_core.records import ErrorClass
from rlm_core.repl import ExecutionResult, Repl, ReplLimits, SubcallError

Run = Callable[..., Awaitable[list[ExecutionResult]]]
RunOne = Callable[..., Awaitable[ExecutionResult]]


async def echo(name: str, arguments: dict[str, Any]) -> Any:
    if "prompts" in arguments:
        return [{"error": "too bad"} if p == "bad" else p.upper() for p in arguments["prompts"]]
    if arguments["prompt"] == "refuse":
        raise SubcallError("the budget of 3 children is spent; answer with what you have")
    return {"name": name, **arguments}


async def test_the_four_calls_arrive_with_their_arguments(run_one: RunOne) -> None:
    code = "llm_query('a'), rlm_query('b', context={'k': 'v'}), "
    code += "llm_query_batched(['x', 'bad']), rlm_query_batched(['y'], ['c'])"
    result = await run_one(code, subcalls=echo)
    assert result.stdout == (
        "({'name': 'llm_query', 'prompt': 'a'}, {'name': 'rlm_query', 'prompt': 'b', 'context': {'k': 'v'}}, "
        "['X', {'error': 'too bad'}], ['Y'])\n"
    )


async def test_a_refusal_is_an_exception_that_code_can_catch(run: Run) -> None:
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
async def test_wrong_arguments_are_explained(run_one: RunOne, code: str, message: str) -> None:
    result = await run_one(code, subcalls=echo, limits=ReplLimits(message_mb=1))
    assert result.error is not None
    assert message in result.error
    assert not result.killed


async def test_without_a_handler_the_calls_say_so(run_one: RunOne) -> None:
    result = await run_one("llm_query('x')")
    assert result.error is not None
    assert "llm_query is not available in this REPL" in result.error


async def test_an_empty_batch_asks_nobody(run_one: RunOne) -> None:
    assert (await run_one("rlm_query_batched([])")).stdout == "[]\n"


async def test_the_clock_stands_still_while_a_sub_call_is_awaited(run: Run) -> None:
    async def slow(name: str, arguments: dict[str, Any]) -> str:
        await asyncio.sleep(1.2)
        return "late"

    waited, spun = await run(
        "llm_query('x')", "llm_query('x')\nwhile True: pass", limits=ReplLimits(wall_seconds=0.6), subcalls=slow
    )
    assert (waited.stdout, waited.killed) == ("'late'\n", False)
    assert waited.seconds < 0.6
    assert spun.killed


async def test_sub_calls_of_several_threads_run_at_once(run_one: RunOne) -> None:
    all_there = asyncio.Barrier(5)

    async def meet(name: str, arguments: dict[str, Any]) -> str:
        await asyncio.wait_for(all_there.wait(), 20)
        return str(arguments["prompt"])

    code = "from concurrent.futures import ThreadPoolExecutor\n"
    code += "with ThreadPoolExecutor(5) as pool:\n    print(list(pool.map(llm_query, 'abcde')))"
    result = await run_one(code, subcalls=meet)
    assert result.stdout == "['a', 'b', 'c', 'd', 'e']\n"


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


async def test_a_loop_over_refused_subcalls_is_stopped(run: Run) -> None:
    asked = 0

    async def refuse(name: str, arguments: dict[str, Any]) -> Any:
        nonlocal asked
        asked += 1
        raise SubcallError("no sub-calls are left")

    code = "while True:\n    try: llm_query('again')\n    except Exception: pass"
    first, second = await run(code, "1 + 1", limits=ReplLimits(wall_seconds=300), subcalls=refuse)
    assert first.killed
    assert first.error is not None
    assert "went on after 1000 refused sub-calls" in first.error
    assert asked == 1001
    assert second.stdout.endswith("2\n")


async def test_a_context_of_very_many_values_is_refused_in_the_code(run_one: RunOne) -> None:
    async def answer(name: str, arguments: dict[str, Any]) -> Any:
        return "served"

    code = "try:\n    rlm_query('x', {'rows': [[]] * 1_100_000})\nexcept RuntimeError as error:\n    print(error)"
    result = await run_one(code, subcalls=answer)
    assert result.stdout == "rlm_query: the context holds more than 1000000 values; hand it over as a text\n"
    assert (await run_one("rlm_query('x', {'a': ',[{' * 1_000_000})", subcalls=answer)).stdout == "'served'\n"
