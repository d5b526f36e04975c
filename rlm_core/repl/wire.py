"""Frames between host and worker: a 4-byte little-endian length, then JSON in UTF-8.

JSON because the host must be able to read what a hostile worker writes; nothing that executes (pickle, marshal) ever
goes that way. Texts are cleaned of lone surrogates, which no file and no tokenizer takes.
"""

from __future__ import annotations

import json
import struct
from typing import Any

HEADER = struct.Struct("<I")
MAX_FRAME_MB = 256
MAX_VALUES = 1_000_000
"""Of one message. A worker could else make the host build 30 times a message's size in tiny lists."""
_FEW_VALUES = 50_000

TRAILER = struct.Struct("<8si")
"""What the fork server writes on a worker's channel after the worker's death: the magic and its wait status."""
TRAILER_MAGIC = b"\xffRLMEND\xff"
"""No UTF-8 text holds these bytes."""


class WireError(RuntimeError):
    """The peer sent something that is no frame."""


def encode(message: Any) -> bytes:
    """A frame, header included. Raises `ValueError` or `TypeError` for what is no JSON (NaN, bytes, a cycle)."""
    return frame(json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":")))


def frame(text: str) -> bytes:
    body = text.encode("utf-8", "replace")
    return HEADER.pack(len(body)) + body


def decode(body: bytes | bytearray | memoryview) -> dict[str, Any]:
    """The message of one frame's body; raises `WireError` for anything that is not a JSON object."""
    try:
        text = str(body, "utf-8")
        message = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise WireError(f"not a JSON message ({type(error).__name__})") from None
    if not isinstance(message, dict):
        raise WireError(f"expected a JSON object, got {type(message).__name__}")
    if "\\ud" in text or "\\uD" in text:
        cleaned = clean(message)
        assert isinstance(cleaned, dict)
        return cleaned
    return message


def values_in(body: bytes) -> int:
    """Upper bound of the values that `body`, JSON text, would become: in time linear in its size, without building them."""
    marks = b",[{"
    rough = sum(body.count(mark) for mark in (b",", b"[", b"{"))
    if rough < _FEW_VALUES:
        return rough
    bare = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    texts = bare.count(b'"') // 2
    if texts > MAX_VALUES:  # too many already, and splitting there would cost memory
        return texts
    outside = b"".join(bare.split(b'"')[::2])
    return len(outside) - len(outside.translate(None, marks))


def clean(value: Any) -> Any:
    """`value` with lone surrogates in its texts replaced by '?'. Recursion is bounded by the JSON parser's own."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, list):
        return [clean(item) for item in value]
    if isinstance(value, dict):
        return {clean(key): clean(item) for key, item in value.items()}
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
