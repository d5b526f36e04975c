"""A params file becomes `Params`, or a list of all its faults."""

from __future__ import annotations

import reprlib
from collections.abc import Hashable
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from rlm_core.params.root import Params
from rlm_core.printable import printable


class ParamsError(ValueError):
    """A params file that cannot be used; the message lists every fault with its key, what was got and what is allowed."""


def load_params(path: Path | str = "params.yaml") -> Params:
    """Read and validate a params file; raises `ParamsError` naming file, key, value and remedy for every fault."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ParamsError(f"{path}: no such params file; copy one from profiles/") from None
    except UnicodeDecodeError as error:
        raise ParamsError(f"{path}: not text in UTF-8 ({error}); save it as UTF-8") from error
    except OSError as error:
        raise ParamsError(f"{path}: cannot be read ({error.strerror}); name a file that this user may read") from error
    try:
        data = yaml.load(text, _OneValueEach)
    except yaml.YAMLError as error:
        raise ParamsError(f"{path}: not YAML: {error}") from error
    except RecursionError as error:
        raise ParamsError(f"{path}: not params: its lists or sections are nested without end") from error
    except ValueError as error:  # a number of thousands of digits
        raise ParamsError(f"{path}: {error}") from error
    if data is not None and not isinstance(data, dict):
        raise ParamsError(f"{path}: expected sections like 'papers:', got {type(data).__name__}")
    return validate_params(data or {}, source=str(path))


class _OneValueEach(yaml.SafeLoader):
    """YAML as it is defined: a key that stands twice in a mapping is a fault, not the last one's silent win."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        lines: dict[tuple[str, str], int] = {}
        for key, _ in node.value:
            name, line = (key.tag, str(key.value)), key.start_mark.line + 1
            if name in lines:
                raise yaml.YAMLError(f"the key {key.value!r} stands twice, in lines {lines[name]} and {line}: keep one")
            lines[name] = line
        return super().construct_mapping(node, deep)


def validate_params(data: dict[str, object], *, source: str = "params") -> Params:
    """Validate plain data; raises `ParamsError` as `load_params` does."""
    try:
        return Params.model_validate(data)
    except ValidationError as error:
        raise ParamsError(_explain(error, source)) from error


def _explain(error: ValidationError, source: str) -> str:
    lines = [f"{source}: {error.error_count()} fault(s)"]
    for fault in error.errors():
        key = ".".join(str(part) for part in fault["loc"] if not str(part).startswith("<")) or "(whole file)"
        message = fault["msg"].removeprefix("Value error, ")
        if fault["type"] == "extra_forbidden":
            message = f"unknown key; known here: {', '.join(_known_keys(fault['loc'][:-1]))}"
        elif fault["type"] != "value_error":
            message += f" (got {_SHORT.repr(fault['input'])})"
        lines.append(f"  {key}: {message}")
    return printable("\n".join(lines))


_SHORT = reprlib.Repr()
"""An input may be a whole mapping, or what a few lines of YAML grow to by anchors."""
_SHORT.maxlevel = _SHORT.maxlist = _SHORT.maxdict = 3
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 200


def _known_keys(location: tuple[int | str, ...]) -> list[str]:
    """The keys of the section at a place: numbers of a list and tags of a union name no key."""
    model: type[BaseModel] = Params
    for part in location:
        if isinstance(part, int) or part.startswith("<"):
            continue
        field = model.model_fields.get(part)
        nested = _models_in(field.annotation) if field else []
        if not nested:
            return []
        model = nested[0]
    return sorted(model.model_fields)


def _models_in(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for inner in get_args(annotation) for model in _models_in(inner)]
