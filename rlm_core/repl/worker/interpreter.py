"""Runs blocks one after another in one namespace, as a notebook does, and puts back what must not change."""

from __future__ import annotations

import ast
import builtins
import os
import sys
import types
from collections.abc import Callable
from typing import Any

from rlm_core.repl.worker.answers import AnswerError, Answers
from rlm_core.repl.worker.output import BoundedOutput
from rlm_core.repl.worker.subcalls import SubcallError
from rlm_core.repl.worker.tracebacks import explain, remember_source

PRELOADED = (
    "json", "re", "math", "collections", "itertools", "statistics", "string", "textwrap", "difflib", "datetime", "random"
)  # fmt: skip
"""Modules that are imported already and bound by name."""
_NOT_VARIABLES = (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, type)


class Interpreter:
    """The namespace of one REPL.

    A block's last expression is echoed with `repr` unless it is None, as at Python's own prompt. An exception keeps
    every variable bound before it. Names in `reserved` are bound again after each block.
    """

    def __init__(
        self,
        reserved: dict[str, Any],
        *,
        output_chars: int,
        error_chars: int,
        answer_chars: int,
        raw_output: int | None,
    ) -> None:
        self.output = BoundedOutput(output_chars)
        self._error_chars = error_chars
        self._raw_output = raw_output
        self.answers = Answers(self.variables, answer_chars, self.output.write)
        self._reserved = {**reserved, "FINAL": self._make_final(), "FINAL_VAR": self._make_final_var()}
        self._module = types.ModuleType("__main__")
        self._names = self._module.__dict__
        self._names.update({name: sys.modules[name] for name in PRELOADED})
        self._names.update(self._reserved)
        self._names["__builtins__"] = builtins
        sys.modules["__main__"] = self._module
        self._blocks = 0
        self._saved_builtins = dict(builtins.__dict__)
        self._restore_builtins = builtins.__dict__.update
        self._recursion_limit = sys.getrecursionlimit()

    def _make_final(self) -> Callable[[Any], None]:
        answers = self.answers

        def FINAL(value: Any) -> None:
            """Answer with `value`: a text, a number, a list or a dict of those."""
            answers.submit(value)

        return FINAL

    def _make_final_var(self) -> Callable[[Any], None]:
        answers = self.answers

        def FINAL_VAR(name: Any) -> None:
            """Answer with a variable: its name, or the variable itself."""
            answers.submit(answers.lookup(name))

        return FINAL_VAR

    def variables(self) -> dict[str, Any]:
        """What the code itself has bound: no modules, functions, private or reserved names."""
        return {
            name: value
            for name, value in self._names.items()
            if not name.startswith("_") and name not in self._reserved and not isinstance(value, _NOT_VARIABLES)
        }

    def run(self, code: str) -> dict[str, Any]:
        """Run one block; the fields of its result. Never raises for anything the code does."""
        self._blocks += 1
        self.answers.reset()
        self.output.reset()
        sys.stdout = sys.stderr = self.output
        error, kind = None, "none"
        try:
            self._execute(code, f"<block {self._blocks}>")
        except BaseException as caught:  # noqa: BLE001 - whatever the code raises is its observation
            self._put_back()
            kind = _error_class(caught)
            trace = caught.__traceback__
            caught.__traceback__ = trace.tb_next if trace else None
            error = explain(caught, self._error_chars)
        finally:
            self._put_back()
        self._drain_raw_output()
        return {
            "stdout": self.output.value(),
            "error": error,
            "class": kind,
            "has_final": self.answers.given,
            "final": self.answers.value,
        }

    def _execute(self, code: str, name: str) -> None:
        remember_source(name, code)
        tree = ast.parse(code, name)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        if tree.body:
            exec(compile(tree, name, "exec", dont_inherit=True), self._names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), name, "eval", dont_inherit=True), self._names)
            if value is not None:
                self.output.write(repr(value) + "\n")

    def _put_back(self) -> None:
        """Undo what a block may have done to builtins, streams, hooks and reserved names."""
        self._restore_builtins(self._saved_builtins)
        sys.settrace(None)
        sys.setprofile(None)
        sys.setrecursionlimit(self._recursion_limit)
        sys.stdout = sys.stderr = self.output
        sys.modules["__main__"] = self._module
        changed = []
        for name, value in self._reserved.items():
            if self._names.get(name, self) is not value:
                self._names[name] = value
                changed.append(name)
        if changed:
            self.output.write(f"[reserved, put back: {', '.join(changed)}; use other names]\n")

    def _drain_raw_output(self) -> None:
        """What went to descriptors 1 and 2 directly; the pipe holds at most 64 KiB, more is refused to the writer."""
        if self._raw_output is None:
            return
        try:
            data = os.read(self._raw_output, 1 << 16)
        except OSError:
            return
        if data:
            self.output.write(data.decode("utf-8", "replace"))


def _error_class(error: BaseException) -> str:
    if isinstance(error, AnswerError):
        return "answer"
    if isinstance(error, SubcallError):
        return "budget"
    if isinstance(error, MemoryError):
        return "limit"
    return "code"
