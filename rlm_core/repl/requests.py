"""What a worker may ask of the host: the four sub-calls, with arguments of the right types and number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlm_core.repl.worker.answers import AnswerError, to_json

_ANY_SIZE = 1 << 40
"""The size is bounded by `message_mb` already."""
MAX_BATCH = 1000
"""Prompts in one batched call; budgets are usually far lower."""


class RequestError(Exception):
    """A sub-call that is not understood; goes back to the code as an exception with this message."""


def check_request(message: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Name and arguments of a call frame, which hostile code may have written. Raises `RequestError`.

    Arguments: `{"prompt"}`, `{"prompts"}`, `{"prompt", "context"}` or `{"prompts", "contexts"}`; a context is a text,
    a dict or None, and `contexts` is None or as long as `prompts`.
    """
    name, given = message.get("name"), message.get("args")
    if name not in ("llm_query", "llm_query_batched", "rlm_query", "rlm_query_batched"):
        raise RequestError(f"there is no sub-call {str(name)[:50]!r}")
    if not isinstance(given, dict):
        raise RequestError(f"{name}: arguments must be named")
    is_child = name.startswith("rlm")
    if not name.endswith("_batched"):
        prompt = _prompt(given.get("prompt"), name)
        return name, {"prompt": prompt, "context": _context(given.get("context"), name)} if is_child else {
            "prompt": prompt
        }
    prompts = given.get("prompts")
    if not isinstance(prompts, list):
        raise RequestError(f"{name}: prompts must be a list of texts")
    if len(prompts) > MAX_BATCH:
        raise RequestError(f"{name}: {len(prompts)} prompts at once; at most {MAX_BATCH}")
    arguments: dict[str, Any] = {"prompts": [_prompt(item, name) for item in prompts]}
    if is_child:
        contexts = given.get("contexts")
        if contexts is not None and (not isinstance(contexts, list) or len(contexts) != len(prompts)):
            raise RequestError(f"{name}: contexts must be a list with one context for each prompt")
        arguments["contexts"] = None if contexts is None else [_context(item, name) for item in contexts]
    return name, arguments


def _prompt(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise RequestError(f"{name}: a prompt must be a text, got {type(value).__name__}")
    if not value.strip():
        raise RequestError(f"{name}: the prompt is empty")
    return value


def _context(value: Any, name: str) -> str | dict[str, Any] | None:
    if isinstance(value, dict):
        try:
            return dict(to_json(value, limit=_ANY_SIZE))
        except AnswerError:
            raise RequestError(f"{name}: the context is nested too deeply") from None
    if value is None or isinstance(value, str):
        return value
    raise RequestError(f"{name}: a context must be a text or a dict, got {type(value).__name__}")
