"""Other people's questions and papers, read into rows of one's own JSONL; and queries written out for others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from rlm_core.synthesis.formats import evidence_inference, own, qasper
from rlm_core.synthesis.formats.rows import Imported

Format = Literal["jsonl", "qasper", "evidence-inference"]
READERS: dict[Format, Callable[[Path], Imported]] = {
    "jsonl": own.read,
    "qasper": qasper.read,
    "evidence-inference": evidence_inference.read,
}

__all__ = ["READERS", "Format", "Imported"]
