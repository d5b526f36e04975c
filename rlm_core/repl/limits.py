"""What one REPL may use. Times are seconds, sizes MiB or characters; every limit holds for one worker process."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from rlm_core.repl.wire import MAX_FRAME_MB


@dataclass(frozen=True, slots=True)
class ReplLimits:
    """Limits of one REPL. The defaults suit searching through some papers.

    >>> ReplLimits(wall_seconds=5, memory_mb=256)
    """

    wall_seconds: float = 20.0
    """A block's running time; waits for sub-calls do not count. Past it the worker is killed and its variables are lost."""
    memory_mb: int = 512
    """Address space that context and code may add to the idle interpreter. Past it Python raises MemoryError."""
    output_chars: int = 2000
    """Characters of a block's output that are kept: the first and the last half. 0 keeps only the count."""
    error_chars: int = 1000
    """Characters of an error's message (traceback included) that are kept."""
    answer_chars: int = 1_000_000
    """Size of an answer as JSON text. Past it FINAL raises."""
    cpu_seconds: int = 600
    """Processor time of the worker's whole life, all threads and blocks together. Past it the kernel kills it."""
    threads: int = 16
    """Threads besides the main one. 0 refuses threads."""
    files: int = 64
    """Open file descriptors."""
    scratch_mb: int = 16
    """Size of the private scratch folder, which lies in memory. 0 gives none."""
    message_mb: int = 32
    """One message between code and host: a block's code, a sub-call's arguments with their contexts, or its result."""
    open_seconds: float = 60.0
    """Time to start a worker and hand it its context, queueing behind other starts included."""

    def __post_init__(self) -> None:
        floors = {
            "wall_seconds": 0.001, "memory_mb": 32, "output_chars": 0, "error_chars": 100, "answer_chars": 100,
            "cpu_seconds": 1, "threads": 0, "files": 16, "scratch_mb": 0, "message_mb": 1, "open_seconds": 0.001,
        }  # fmt: skip
        for name, floor in floors.items():
            value = getattr(self, name)
            if not isinstance(value, int | float) or isinstance(value, bool) or not value >= floor:
                raise ValueError(f"ReplLimits.{name} must be a number of at least {floor}, got {value!r}")
            if name not in ("wall_seconds", "open_seconds") and value != int(value):
                raise ValueError(f"ReplLimits.{name} must be a whole number, got {value!r}")
        if self.message_mb > MAX_FRAME_MB:
            raise ValueError(f"ReplLimits.message_mb must be at most {MAX_FRAME_MB}, got {self.message_mb}")

    def as_dict(self) -> dict[str, float | int]:
        return dataclasses.asdict(self)
