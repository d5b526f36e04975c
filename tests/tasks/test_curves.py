"""Each point of a curve reaches MLflow once, whether or not the store can be asked what it has."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tasks.curves import Curves

ROWS = [{"step": 0, "lr": 0.1}, {"step": 1, "lr": 0.2}, {"step": 2, "lr": 0.3}]


def make_stage(has: set[int]) -> Any:
    """A stage whose MLflow run holds the training points `has`; empty too where the store does not answer."""
    told: list[tuple[int, dict[str, float]]] = []
    tracker = SimpleNamespace(run_id="r", steps_of=lambda key: set(has) if key == "lr" else set())
    return SimpleNamespace(
        name="grpo", tracker=tracker, told=told, log_metrics=lambda figures, step: told.append((step, figures))
    )


def test_what_the_run_lacks_is_told(tmp_path: Path):
    stage = make_stage({0})
    curves = Curves(stage, tmp_path)
    curves.catch_up("train", ROWS)
    assert stage.told == [(1, {"lr": 0.2}), (2, {"lr": 0.3})]
    assert not curves.tell("train", 2, {"lr": 9.0}) and curves.tell("train", 3, {"lr": 0.4})
    assert curves.tell("val", 2, {"val_reward_mean": 0.5})  # another curve


def test_a_store_that_does_not_answer_is_told_nothing_twice(tmp_path: Path):
    first = Curves(make_stage(set()), tmp_path)
    first.catch_up("train", ROWS[:2])
    with open(tmp_path / "told-r.jsonl", "a") as out:
        out.write('{"kind": "tr')  # a kill in the middle of a line
    stage = make_stage(set())
    Curves(stage, tmp_path).catch_up("train", ROWS)
    assert stage.told == [(2, {"lr": 0.3})]
