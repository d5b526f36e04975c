"""The functions that a prompt explains, each by its own signature and the first line of its own docstring."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rlm_core.papers.tools import Tools
from rlm_core.prompts.style import Allowance, PromptStyle, Task


@dataclass(frozen=True, slots=True)
class Function:
    name: str
    signature: str
    """E.g. `search(keyword, paper=None, window=300)`; without annotations, which small models copy into calls."""
    summary: str

    def __str__(self) -> str:
        return f"{self.signature}: {self.summary}"


def describe(function: Callable[..., Any]) -> Function:
    """A function's signature and the first line of its docstring. Raises `ValueError` when it has none."""
    name = function.__name__
    doc = inspect.getdoc(function)
    if not doc:
        raise ValueError(f"{name} has no docstring, so a prompt cannot say what it does")
    signature = inspect.signature(function)
    bare = [p.replace(annotation=p.empty) for p in signature.parameters.values() if p.name != "self"]
    text = str(signature.replace(parameters=bare, return_annotation=signature.empty))
    return Function(name, f"{name}{text}", doc.split("\n", 1)[0].strip())


PAPER_TOOLS = tuple(
    describe(f) for f in (Tools.list_papers, Tools.search, Tools.extract_section, Tools.get_paper_abstract)
)


def FINAL(value: Any) -> None:
    """Answer with `value` (text, number, list or dict) and stop."""


def FINAL_VAR(name: str) -> None:
    """Answer with the variable of that name and stop."""


def llm_query(prompt: str) -> str:
    """Ask a language model that sees only `prompt`; return its text."""
    raise NotImplementedError


def llm_query_batched(prompts: list[str]) -> list[str]:
    """Ask many prompts at once; return the texts in order, {"error": ...} where one failed."""
    raise NotImplementedError


def rlm_query(prompt: str, context: Any = None) -> Any:
    """Give a question to a child with a REPL of its own and return its answer; it reads `context`: a paper id, a list of ids, or any text or dict; None gives it yours."""  # noqa: E501
    raise NotImplementedError


def rlm_query_batched(prompts: list[str], contexts: Any = None) -> list[Any]:
    """Ask one child for each prompt with the context beside it, at once; return the answers in order, {"error": ...} where one failed."""  # noqa: E501
    raise NotImplementedError


ANSWERS = (describe(FINAL), describe(FINAL_VAR))
ASKING = (describe(llm_query), describe(llm_query_batched))
RECURSING = (describe(rlm_query), describe(rlm_query_batched))

_COMPACT = {"search", "FINAL"}
_COMPACT_RECURSING = {"list_papers", "rlm_query_batched", "FINAL"}


def functions_for(task: Task, style: PromptStyle, allowance: Allowance) -> list[Function]:
    """What the prompt of this node explains: nothing that its budget forbids; in `compact` only what its strategy uses."""
    functions = list(PAPER_TOOLS)
    if allowance.may_ask(style):
        functions += ASKING
    if allowance.may_recurse(style):
        functions += RECURSING
    functions += ANSWERS
    if style.variant != "compact":
        return functions
    wanted = _COMPACT_RECURSING if task.scope == "multi" and allowance.may_recurse(style) else _COMPACT
    return [f for f in functions if f.name in wanted]
