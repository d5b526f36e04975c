"""A stage without MLflow, whose database takes seconds to make: for tests of what a stage reads, writes and counts.

`python tests/stubs/quiet.py NAME` runs a stage so in the current folder, with its params.yaml.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlm_core.params import Params, load_params
from tasks.common import Stage
from tasks.tracking import Tracker


class QuietTracker(Tracker):
    """Keeps nothing; the stage itself sums up the figures."""

    def __init__(self) -> None:
        pass

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        assert all(isinstance(value, (int, float)) for value in metrics.values()), metrics

    def log_params(self, params: Mapping[str, Any]) -> None:
        pass

    def set_tags(self, tags: Mapping[str, str]) -> None:
        pass

    def log_artifact(self, path: Path) -> None:
        assert path.exists(), path

    def log_datasets(self, context: str, *paths: Path) -> None:
        assert all(path.exists() for path in paths), paths

    def steps_of(self, metric: str) -> set[int]:
        return set()


def quiet_stage(name: str, params: Params) -> Stage:
    return Stage(name, params, QuietTracker())


if __name__ == "__main__":
    importlib.import_module(f"tasks.{sys.argv[1]}").run(quiet_stage(sys.argv[1], load_params()))
