"""What the queries are asked about: the parsed papers, and conversations that the stage `queries` made itself."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from rlm_core.files import write_json
from rlm_core.papers import load_library
from rlm_core.papers.records import Paper
from tasks.common import require

PARSED = Path("data/parsed")
MADE = Path("data/queries/contexts")
"""A folder of the stage's own output; absent where questions are about papers."""


def read_contexts() -> dict[str, Paper]:
    """Parsed papers and made conversations by id; raises `StageError` when `parse` has not run."""
    papers = load_library(require(PARSED, "parse"))
    return papers | load_library(MADE) if MADE.is_dir() else papers


def context_files() -> list[Path]:
    """What `read_contexts` reads, for a key."""
    return sorted(path for folder in (PARSED, MADE) for path in folder.glob("*.json"))


def write_contexts(papers: Mapping[str, Paper]) -> None:
    """Put `papers` in place of what an earlier run made; nothing stays for none."""
    shutil.rmtree(MADE, ignore_errors=True)
    for paper in papers.values():
        write_json(MADE / f"{paper.id}.json", paper.to_dict())
