"""The functions that a prompt explains, each by its own signature and the first line of its own docstring."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from rlm_core.papers.tools import Tools
from rlm_core.prompts.style import Allowance, PromptStyle, Task
from rlm_core.repl.worker.interpreter import Interpreter
from rlm_core.repl.worker.subcalls import make_query_functions


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


def _describe_answers() -> tuple[Function, ...]:
    """FINAL and FINAL_VAR are made by the interpreter of a REPL; their docstrings do not depend on which."""
    nobody = SimpleNamespace(answers=None)
    return describe(Interpreter._make_final(nobody)), describe(Interpreter._make_final_var(nobody))  # type: ignore[arg-type]


_QUERIES = {name: describe(function) for name, function in make_query_functions(lambda name, args: None).items()}

PAPER_TOOLS = tuple(
    describe(f) for f in (Tools.list_papers, Tools.search, Tools.extract_section, Tools.get_paper_abstract)
)
ANSWERS = _describe_answers()
ASKING = tuple(f for name, f in _QUERIES.items() if name.startswith("llm_"))
RECURSING = tuple(f for name, f in _QUERIES.items() if name.startswith("rlm_"))

CONTEXT_RULE = (
    "A child reads its context: a paper's id or a row of list_papers(), a text, or a dict; without one it reads yours."
)
"""What `rollouts.contexts.child_context` takes."""

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
