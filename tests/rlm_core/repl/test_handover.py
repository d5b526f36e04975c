"""A context on its way to workers: whole, plain data only, packed once while it is shared."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rlm_core.repl import ExecutionResult, Repl, handover, shared_context

RunOne = Callable[..., Awaitable[ExecutionResult]]


async def test_a_large_context_arrives_whole(run_one: RunOne) -> None:
    context = {"p": {"title": "t", "abstract": "", "text": "line é\n" * 2_000_000}}
    result = await run_one("len(context['p']['text']), context['p']['text'][-7:]", context=context)
    assert result.stdout == "(14000000, 'line é\\n')\n"


@pytest.mark.parametrize("context", [object(), {"a": object()}, {"a": b"x", "b": len}])
async def test_a_context_of_other_than_plain_data_is_refused(context: Any) -> None:
    with pytest.raises(ValueError, match="plain data"):
        async with Repl.open(context):
            pass


async def test_a_shared_context_is_packed_once_and_its_file_goes_with_the_last_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    packed: list[Any] = []
    write = handover._write_memory_file

    def count(context: Any) -> int:
        packed.append(context)
        return write(context)

    monkeypatch.setattr(handover, "_write_memory_file", count)
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
