"""What a block did, and how a worker's word for it becomes a result."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

from rlm_core.records import ErrorClass
from rlm_core.repl.limits import ReplLimits
from rlm_core.repl.worker.answers import AnswerError, to_json


@dataclass(frozen=True, slots=True)
class ExecutionResult:
    """What one block did."""

    stdout: str = ""
    """What it printed (both streams) and the value of its last expression; cut to `output_chars`."""
    error: str | None = None
    """None, or a short traceback of its own code, or why it was stopped."""
    final: Any = None
    """The answer as JSON data, where the block gave one."""
    has_final: bool = False
    """True also when the answer is None. Stands even if the block failed after FINAL."""
    killed: bool = False
    """The worker is gone: time, memory, a crash. The next block starts with the variables lost."""
    seconds: float = 0.0
    """Running time, waits for sub-calls not counted."""
    error_class: ErrorClass = ErrorClass.NONE


def result_of(row: dict[str, Any], limits: ReplLimits, seconds: float) -> ExecutionResult:
    """A result frame, believed only as far as its types and sizes go."""
    stdout, error = row.get("stdout"), row.get("error")
    with contextlib.suppress(ValueError, AnswerError):
        return ExecutionResult(
            stdout=_bounded(stdout, limits.output_chars + 200),
            error=None if error is None else _bounded(error, limits.error_chars + 200),
            final=to_json(row.get("final"), limit=limits.answer_chars) if row.get("has_final") is True else None,
            has_final=row.get("has_final") is True,
            seconds=seconds,
            error_class=ErrorClass(str(row.get("class"))),
        )
    return ExecutionResult(
        error="the code broke the REPL's own reporting; its output is lost",
        seconds=seconds,
        error_class=ErrorClass.CODE,
    )


def _bounded(text: Any, limit: int) -> str:
    if not isinstance(text, str):
        raise ValueError("not a text")
    return text[:limit]
