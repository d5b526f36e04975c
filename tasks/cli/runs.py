"""MLflow runs as a person names them: an id, the beginning of one, or a name."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rlm_core.params import Params
from tasks.common import StageError
from tasks.tracking import tracking_uri

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

_ID = re.compile(r"[0-9a-f]{4,32}")
_NAME = re.compile(r"(?P<name>.+?)(~(?P<back>\d+))?")


class Runs:
    """Reads the store of `params`; raises `StageError` with what to do where there is none or it does not answer."""

    def __init__(self, params: Params) -> None:
        self.uri = tracking_uri(params)
        file = Path(self.uri.removeprefix("sqlite:///"))
        if self.uri.startswith("sqlite:///") and not file.exists():
            raise StageError(f"{file}: no MLflow store here yet; the first stage that runs makes it (`make run`)")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")
        from mlflow import MlflowClient

        self.client: MlflowClient = MlflowClient(self.uri)

    def newest(self, filter_: str = "", *, count: int = 20) -> list[Run]:
        """Of all experiments, newest first."""
        from mlflow.exceptions import MlflowException

        try:
            experiments = [e.experiment_id for e in self.client.search_experiments()]
            return list(self.client.search_runs(experiments, filter_, max_results=count, order_by=["start_time DESC"]))
        except MlflowException as error:
            raise StageError(f"MLflow at {self.uri} cannot be read: {error.message or error}") from error

    def find(self, name: str) -> Run:
        """By id, unique beginning of an id (4 digits or more), or name; of several with a name the newest, NAME~1 the one
        before it, and so on."""
        if _ID.fullmatch(name):
            found = self.newest(f"attributes.run_id LIKE '{name}%'")
            if len(found) == 1:
                return found[0]
            if found:
                raise StageError(f"'{name}' begins {len(found)} ids; type more of it: {_list(found)}")
        parts = _NAME.fullmatch(name)
        if parts and "'" not in name:
            back = int(parts["back"] or 0)
            found = self.newest(f"attributes.run_name = '{parts['name']}'", count=back + 1)
            if len(found) > back:
                return found[back]
            if found:
                raise StageError(
                    f"there are {len(found)} runs named '{parts['name']}'; '{name}' is older than the oldest"
                )
        raise StageError(f"no run '{name}' in {self.uri}; the newest are {_list(self.newest(count=8)) or 'none'}")


def _list(runs: Sequence[Run]) -> str:
    return ", ".join(f"{run.info.run_id[:8]} ({run.info.run_name})" for run in runs)
