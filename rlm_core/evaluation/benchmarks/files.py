"""Rows of a file that the user has: .json (a list, or an object with one), .jsonl, each also as .gz; and what is missing."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]


def read_rows(path: Path | None, *, benchmark: str, needs: Sequence[str], source: str, list_key: str = "") -> list[Row]:
    """All rows; `list_key` names the list inside a .json object.

    Raises `ValueError` for no path (naming `source`, where the file comes from), a file that cannot be read, a row that is no
    object, and one that lacks a key of `needs`.
    """
    if path is None:
        raise ValueError(f"benchmark {benchmark} reads a file of yours: give its path ({source})")
    if not path.is_file():
        raise ValueError(f"benchmark {benchmark}: no such file: {path} ({source})")
    rows = _parse(path, benchmark, list_key)
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise ValueError(f"{path}: row {number} is {type(row).__name__}, expected an object")
        if missing := [key for key in needs if key not in row]:
            raise ValueError(f"{path}: row {number} lacks {', '.join(missing)}; its keys are {', '.join(sorted(row))}")
    if not rows:
        raise ValueError(f"{path}: holds no rows")
    return rows


def _parse(path: Path, benchmark: str, list_key: str) -> list[Any]:
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        text = raw.decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: cannot read ({error})") from error
    if ".jsonl" in path.suffixes:
        return [_value(line, f"{path}:{number}") for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    data = _value(text, str(path))
    if isinstance(data, dict) and list_key:
        data = data.get(list_key)
    if not isinstance(data, list):
        inside = f" or an object with a list {list_key!r}" if list_key else ""
        raise ValueError(f"{path}: benchmark {benchmark} expects a list{inside}")
    return data


def _value(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{place}: not JSON ({error})") from error
