"""Copies of this tree with the smoke profile, and what still runs inside them."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh copy of the tree; its params.yaml is the smoke profile."""
    spec = importlib.util.spec_from_file_location("smoke", ROOT / "scripts" / "smoke.py")
    assert spec and spec.loader
    smoke = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(smoke)
    folder = tmp_path_factory.mktemp("copy") / "project"
    smoke.copy_tree(folder)
    return folder


@pytest.fixture(scope="session")
def running_in() -> Callable[[Path], list[str]]:
    """The command lines of the processes whose working folder lies in a folder."""

    def look(folder: Path) -> list[str]:
        found = []
        for process in psutil.process_iter(["cwd", "cmdline"]):
            if process.pid != os.getpid() and (process.info["cwd"] or "").startswith(str(folder)):
                found.append(" ".join(process.info["cmdline"] or []))
        return found

    return look
