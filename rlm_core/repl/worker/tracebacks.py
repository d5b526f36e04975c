"""An exception as the model sees it: the frames of its own code, short."""

from __future__ import annotations

import linecache
import sys
import traceback
from types import TracebackType

from rlm_core.repl.worker.output import shorten

_MAX_FRAMES = 4


def remember_source(name: str, code: str) -> None:
    """So that tracebacks can quote the block's lines."""
    linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)


def explain(error: BaseException, limit: int) -> str:
    """At most `limit` characters: the last frames of the user's code with their lines, then type and message.

    Never raises, whatever the exception's own methods do.
    """
    try:
        last = "".join(_last_lines(error)).rstrip()
    except BaseException:  # noqa: BLE001 - a hostile __str__ may raise anything
        last = f"{type(error).__name__}: (its message cannot be shown)"
    try:
        frames = _user_frames(error.__traceback__)
    except BaseException:  # noqa: BLE001
        frames = []
    last = shorten(last, limit)
    if not frames or isinstance(error, SyntaxError):
        return last
    left_out = len(frames) - _MAX_FRAMES
    if left_out > 0:
        frames = [frames[0], f"  ... {left_out} more calls", *frames[1 - _MAX_FRAMES :]]
    room = max(limit - len(last), 0)
    text = "\n".join(["Traceback:", *frames])
    return (shorten(text, room) + "\n" if room >= 40 else "") + last


def _last_lines(error: BaseException) -> list[str]:
    if isinstance(error, SyntaxError):
        return traceback.format_exception_only(type(error), error)
    name = type(error).__name__
    module = type(error).__module__
    if module not in ("builtins", "__main__") and not module.startswith("rlm_core"):
        name = f"{module}.{name}"
    message = str(error)
    if isinstance(error, SystemExit):
        return [f"{name}: {message} (the REPL goes on; use FINAL(value) to answer)"]
    if isinstance(error, RecursionError):
        message += f" (limit {sys.getrecursionlimit()})"
    return [f"{name}: {message}" if message else name]


def _user_frames(trace: TracebackType | None) -> list[str]:
    frames = []
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename.startswith("<block"):
            place = "" if code.co_name == "<module>" else f" in {code.co_name}"
            line = linecache.getline(code.co_filename, trace.tb_lineno).strip()
            frames.append(
                f"  {code.co_filename[1:-1]}, line {trace.tb_lineno}{place}" + (f": {line[:200]}" if line else "")
            )
        trace = trace.tb_next
    return frames
