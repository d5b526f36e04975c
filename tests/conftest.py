"""Fixtures that all tests share."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("ci", derandomize=True, deadline=None)  # the same examples on every machine
settings.register_profile("here", deadline=None)  # a developer's runs look for new ones
settings.load_profile("ci" if os.environ.get("CI") else "here")  # no deadline: a loaded machine is slow, not wrong

# Stages of tests do not queue behind those of a real run on this machine.
os.environ["RLM_LOCK_DIR"] = tempfile.mkdtemp(prefix="rlm-locks-")
atexit.register(shutil.rmtree, os.environ["RLM_LOCK_DIR"], ignore_errors=True)

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def shared_corpus() -> Path:
    """The folder of 25 real papers beside the checkout; the test is skipped where it is absent."""
    folder = SHARED / "corpus"
    if not folder.is_dir():
        pytest.skip("the corpus of real papers (../shared/corpus) is not beside this checkout")
    return folder


@pytest.fixture(scope="session")
def shared_eval() -> Path:
    """The folder of evaluation sets beside the checkout; the test is skipped where it is absent."""
    folder = SHARED / "eval"
    if not folder.is_dir():
        pytest.skip("the evaluation sets (../shared/eval) are not beside this checkout")
    return folder
