"""The stub servers of tests/stubs, and the two embedded models, made once in the checkout's own cache."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "stubs"))  # for `openai_server`

from rlm_core.policies import ChatRenderer, load_tokenizer, materialise_model

MODELS = Path(__file__).resolve().parents[3] / ".cache" / "models"


@pytest.fixture(scope="session")
def tiny_model() -> Path:
    return materialise_model("tiny-random", folder=MODELS)


@pytest.fixture(scope="session")
def tokenizer(tiny_model: Path) -> Any:
    """SmolLM2's; the tiny model has the same."""
    return load_tokenizer(tiny_model)


@pytest.fixture(scope="session")
def renderer(tokenizer: Any) -> ChatRenderer:
    return ChatRenderer(tokenizer)
