"""A renderer on the real tokenizer of SmolLM2, and a builder of teacher trees."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlm_core.policies import ChatRenderer, load_tokenizer, materialise_model
from rlm_core.records import ErrorClass, Evidence, Query, Rollout, Status, Turn

MODELS = Path(__file__).resolve().parents[3] / ".cache" / "models"


@pytest.fixture(scope="session")
def renderer() -> ChatRenderer:
    return ChatRenderer(load_tokenizer(materialise_model("tiny-random", folder=MODELS)))


@pytest.fixture(scope="session")
def query() -> Query:
    return Query("q1", "What holds?", evidence=(Evidence("p1", "the gold passage of the paper"),))


@pytest.fixture(scope="session")
def make_teacher() -> Callable[..., Rollout]:
    """`make_teacher(("text", error), "text", ...)`: a tree of these turns; the last one answers."""

    def build(*turns: str | tuple[str, ErrorClass], id: str = "q1.0", **fields: Any) -> Rollout:
        made = []
        for index, given in enumerate(turns):
            text, error = given if isinstance(given, tuple) else (given, ErrorClass.NONE)
            shown = "" if index == len(turns) - 1 else f"printed {index}"
            made.append(Turn(text, shown, cue=f"Turn {index + 1} of 4", error=error))
        defaults: dict[str, Any] = {
            "query_id": "q1",
            "opening": (("system", "You read papers."), ("user", "Question: What holds?")),
            "answer": ["the gold passage of the paper"],
            "status": Status.ANSWERED,
        }
        return Rollout(id, turns=tuple(made), **{**defaults, **fields})

    return build
