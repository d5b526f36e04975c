"""What a check found, how bad that is, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "note", "bad"]
"""`note`: works, with a limit worth knowing. `bad`: something will fail until it is mended."""


@dataclass(frozen=True, slots=True)
class Finding:
    what: str
    found: str
    level: Level = "ok"
    remedy: str = ""
    """Empty only when nothing is to be done."""
