"""Work on a page that takes a while and leaves a trace, for tests of a fan-out. Importable on a cluster's workers."""

from __future__ import annotations

import os
import time
from pathlib import Path


def read(number: int, file: Path) -> tuple[int, str, int]:
    """The number, what the file holds, and the process that read it; 13 is refused."""
    time.sleep(0.2)
    if number == 13:
        raise ValueError("13 is refused")
    return number, file.read_text(), os.getppid()
