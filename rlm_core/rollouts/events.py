"""What happens in a tree, as it happens: for a live view. Observers look; they never change a rollout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

EventKind = Literal["node_start", "cue", "action", "observation", "call", "node_end"]


@dataclass(frozen=True, slots=True)
class Event:
    kind: EventKind
    """`node_start`: text is the question. `cue`: a model call begins. `action`: text is the completion. `observation`: what the
    REPL printed. `call`: a plain model call ended, text is its reply. `node_end`: data has answer, status, failure, usage."""
    node_id: str
    parent_id: str | None
    depth: int
    turn: int = 0
    text: str = ""
    data: Any = None


Observer = Callable[[Event], None]
