"""FINAL and FINAL_VAR: turn what the code hands in into plain JSON data, or say why that cannot be."""

from __future__ import annotations

import collections
import math
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

_MAX_DEPTH = 50
_SHOWN = 30
_LISTS: tuple[type, ...] = (
    *(list, tuple, collections.deque, range, types.GeneratorType, map, filter, zip, enumerate),
    *(type({}.keys()), type({}.values()), type({}.items())),
)


class AnswerError(Exception):
    """An answer that cannot be taken; the message tells the model what to do."""


def to_json(value: Any, *, limit: int, depth: int = 0) -> Any:
    """Plain data equal to `value`: tuples, sets and other iterable collections become lists, keys become strings.

    Sets are sorted (by value, else by text). Raises `AnswerError` for what JSON does not know and for what is larger
    than `limit` characters or nested deeper than 50.
    """
    budget = [limit]
    return _convert(value, budget, limit, 0)


def _convert(value: Any, budget: list[int], limit: int, depth: int) -> Any:
    budget[0] -= 1
    if budget[0] < 0:
        raise AnswerError(f"the answer is longer than {limit} characters; hand in less")
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        budget[0] -= str.__len__(value)
        if budget[0] < 0:
            raise AnswerError(f"the answer is longer than {limit} characters; hand in less")
        return str.__str__(value) if type(value) is str else "".join(str.__iter__(value))
    if isinstance(value, int):
        if int.bit_length(value) > 10_000:
            raise AnswerError("the answer holds a number of more than 3000 digits")
        return int(int.__int__(value))
    if isinstance(value, float):
        number = float(float.__float__(value))
        if not math.isfinite(number):
            raise AnswerError(f"the answer holds {number}, which is not a JSON number; use None or a text")
        return number
    if depth >= _MAX_DEPTH:
        raise AnswerError(f"the answer is nested deeper than {_MAX_DEPTH} levels or holds itself")
    if isinstance(value, Mapping):
        return {_key(k): _convert(v, budget, limit, depth + 1) for k, v in value.items()}
    if isinstance(value, (set, frozenset)):
        return [_convert(item, budget, limit, depth + 1) for item in _ordered(value)]
    if isinstance(value, _LISTS):
        return [_convert(item, budget, limit, depth + 1) for item in cast(Iterable[Any], value)]
    raise AnswerError(
        f"the answer holds a {type(value).__name__}; use texts, numbers, booleans, None, lists and dicts of those"
    )


def _key(key: Any) -> str:
    if isinstance(key, str):
        return "".join(str.__iter__(key))
    if key is None or isinstance(key, (bool, int, float)):
        return str(key)
    raise AnswerError(f"the answer holds a dict with a {type(key).__name__} as key; use texts as keys")


def _ordered(items: Iterable[Any]) -> list[Any]:
    listed = list(items)
    try:
        return sorted(listed)
    except TypeError:
        return sorted(listed, key=repr)


class Answers:
    """The answer of the block that runs. The first one counts: code after FINAL runs on, but cannot change it."""

    def __init__(self, variables: Callable[[], dict[str, Any]], limit: int, note: Callable[[str], object]) -> None:
        self._variables, self._limit, self._note = variables, limit, note
        self.reset()

    def reset(self) -> None:
        self.given = False
        self.value: Any = None

    def submit(self, value: Any) -> None:
        plain = to_json(value, limit=self._limit)
        if self.given:
            self._note("[FINAL was called before in this block; the first answer counts]\n")
            return
        self.given, self.value = True, plain

    def lookup(self, name: Any) -> Any:
        """The value that FINAL_VAR(name) means: of the variable so named, or `name` itself when it was the variable."""
        known = self._variables()
        if not isinstance(name, str):
            return name
        bare = name.strip().strip("`'\"").strip()
        for candidate in (name, bare):
            if candidate in known:
                return known[candidate]
        if any(value is name for value in known.values()):
            return name
        if bare.isidentifier() or not bare:
            raise AnswerError(f"there is no variable {bare!r}; {describe_variables(known)}")
        return name


def describe_variables(known: Mapping[str, Any]) -> str:
    """For the message about a missing variable.

    >>> describe_variables({"n": 1, "hits": []})
    'variables there are: n (int), hits (list)'
    """
    if not known:
        return "there are no variables yet: assign one first, or use FINAL(value)"
    names = [f"{name} ({type(value).__name__})" for name, value in known.items()]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return "variables there are: " + ", ".join(names[-_SHOWN:]) + more
