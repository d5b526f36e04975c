"""One MLflow store for all tests of the commands: making one takes seconds."""

from __future__ import annotations

import pytest
from mlflow import MlflowClient


@pytest.fixture(scope="session")
def store_uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    uri = f"sqlite:///{tmp_path_factory.mktemp('store') / 'mlflow.db'}"
    MlflowClient(uri).search_experiments()
    return uri
