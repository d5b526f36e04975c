"""Files that are whole or absent: write to a temporary name and rename; append a line at a time; read with clear errors.

Lone surrogates, which JSON can spell and UTF-8 cannot hold, become "?" on their way in and out.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO, TypeVar

log = logging.getLogger("rlm.files")

T = TypeVar("T")


class DamagedFile(ValueError):
    """A file that does not hold what it should; the message names it and what to do."""


@contextlib.contextmanager
def atomic_writer(path: Path) -> Iterator[TextIO]:
    """Open a temporary file beside `path`; on success it replaces `path`, on any error it is removed.

    An `OSError` of writing (a full disk) names `path`.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.", suffix=".part")
    try:
        with _naming(path):
            with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as out:
                yield out
                out.flush()
                os.fsync(out.fileno())
            Path(name).chmod(0o644)
            Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(name).unlink()
        raise


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """What the system says of a descriptor gets the name of its file."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def write_bytes(path: Path, data: bytes) -> None:
    with atomic_writer(path) as out:
        out.buffer.write(data)


def write_text(path: Path, text: str) -> None:
    with atomic_writer(path) as out:
        out.write(text)


def write_json(path: Path, data: Any) -> None:
    write_text(path, json.dumps(data, ensure_ascii=False, indent=1, sort_keys=False) + "\n")


def write_jsonl(path: Path, rows: Iterable[Mapping[str, Any]]) -> int:
    """Write all rows or nothing; returns their number."""
    count = 0
    with atomic_writer(path) as out:
        for row in rows:
            out.write(json.dumps(row, ensure_ascii=False) + "\n")
            count += 1
    return count


def append_jsonl(path: Path, row: Mapping[str, Any]) -> None:
    """Append one row and flush it to disk. A line cut by a crash is dropped by the next append or read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with _naming(path), open(path, "a+b") as out:
        end = out.seek(0, os.SEEK_END)
        if end:
            out.seek(end - 1)
            if out.read(1) != b"\n":
                out.truncate(_end_of_last_line(out, end))
        out.write(json.dumps(row, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
        out.flush()
        os.fsync(out.fileno())


def _end_of_last_line(handle: Any, end: int, block: int = 65536) -> int:
    position = end
    while position > 0:
        start = max(0, position - block)
        handle.seek(start)
        newline = handle.read(position - start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        position = start
    return 0


def read_jsonl(path: Path, *, allow_cut_tail: bool = False) -> Iterator[dict[str, Any]]:
    """Yield the rows of a JSON-lines file, lazily.

    `allow_cut_tail` skips an unfinished last line, as a crash leaves in a file written by `append_jsonl`.
    Raises `DamagedFile` naming file and line for anything else that is not a JSON object.
    """
    with open(path, "rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = _parse(line)
            except _NOT_JSON as error:
                if allow_cut_tail and not line.endswith(b"\n"):
                    return
                raise DamagedFile(
                    f"{path}:{number}: not a JSON line ({error}); delete the file to make it again"
                ) from error
            if not isinstance(row, dict):
                raise DamagedFile(f"{path}:{number}: expected a JSON object, got {type(row).__name__}")
            yield row


def read_json(path: Path) -> Any:
    """The file's data; raises `DamagedFile` for what is not JSON."""
    try:
        return _parse(Path(path).read_bytes())
    except _NOT_JSON as error:
        raise DamagedFile(f"{path}: not JSON ({error}); delete the file to make it again") from error


def read_kept(path: Path, take: Callable[[Any], T]) -> T | None:
    """What a cache keeps in `path`, as `take` makes it of the data; None where there is nothing, or nothing sound.

    A damaged file (not JSON, or `take` raises) is told and counts as absent: what a cache holds can be made again.
    """
    try:
        return take(read_json(path))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        log.warning("%s is damaged and is made again (%s: %s)", path, type(error).__name__, str(error)[:200])
        return None


_NOT_JSON = (ValueError, RecursionError)


def _parse(data: bytes) -> Any:
    value = json.loads(data.decode("utf-8"))
    if b"\\ud" in data or b"\\uD" in data:
        return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    return value


def sha256_file(path: Path) -> str:
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def content_key(*parts: Any) -> str:
    """A 16-digit key of everything that shapes a result, for caches: equal parts, equal key."""
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
