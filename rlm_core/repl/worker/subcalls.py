"""llm_query, llm_query_batched, rlm_query and rlm_query_batched as the code sees them: they ask the host and wait."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Ask = Callable[[str, dict[str, Any]], Any]


class SubcallError(RuntimeError):
    """The host refused a sub-call; the message says why and what is still possible."""


def make_query_functions(ask: Ask) -> dict[str, Callable[..., Any]]:
    """The four functions; argument types are checked here for a good message, and again by the host."""

    def llm_query(prompt: str) -> Any:
        """One plain model call; returns its text."""
        return ask("llm_query", {"prompt": _text(prompt, "llm_query(prompt)")})

    def llm_query_batched(prompts: Sequence[str]) -> list[Any]:
        """One plain model call a prompt, at once; texts in order, {"error": message} where one failed."""
        listed = _texts(prompts, "llm_query_batched(prompts)")
        return list(ask("llm_query_batched", {"prompts": listed})) if listed else []

    def rlm_query(prompt: str, context: Any = None) -> Any:
        """A child RLM with a REPL of its own, on `context` (text or dict); returns its answer."""
        arguments = {"prompt": _text(prompt, "rlm_query(prompt)"), "context": _context(context, "rlm_query(context)")}
        return ask("rlm_query", arguments)

    def rlm_query_batched(prompts: Sequence[str], contexts: Sequence[Any] | None = None) -> list[Any]:
        """A child RLM a prompt, at once; answers in order, {"error": message} where one failed."""
        listed = _texts(prompts, "rlm_query_batched(prompts)")
        given: list[Any] | None = None
        if contexts is not None:
            if isinstance(contexts, (str, dict)):
                raise TypeError("rlm_query_batched(contexts): pass a list with one context for each prompt")
            given = [_context(item, f"rlm_query_batched(contexts[{n}])") for n, item in enumerate(contexts)]
            if len(given) != len(listed):
                raise ValueError(
                    f"rlm_query_batched: {len(listed)} prompts but {len(given)} contexts; pass one for each"
                )
        return list(ask("rlm_query_batched", {"prompts": listed, "contexts": given})) if listed else []

    functions = (llm_query, llm_query_batched, rlm_query, rlm_query_batched)
    return {function.__name__: function for function in functions}


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{what} takes a text, got {type(value).__name__}")
    return value


def _texts(value: Any, what: str) -> list[str]:
    if isinstance(value, (str, bytes, dict)):
        raise TypeError(f"{what} takes a list of texts, got {type(value).__name__}")
    return [_text(item, f"{what}[{n}]") for n, item in enumerate(value)]


def _context(value: Any, what: str) -> Any:
    if value is None or isinstance(value, (str, dict)):
        return value
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return "\n\n".join(value)
    raise TypeError(f"{what} takes a text or a dict, got {type(value).__name__}")
