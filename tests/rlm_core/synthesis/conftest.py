"""The stub server of tests/stubs, and the made-up library beside this file."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "stubs"))  # for `openai_server`
sys.path.insert(0, str(Path(__file__).resolve().parent))  # for `library`
