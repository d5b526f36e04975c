"""`rlm-forge compare` over a real MLflow store."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from mlflow import MlflowClient
from typer.testing import CliRunner

from rlm_core.params import MlflowParams, Params
from tasks.cli.compare import metric_rows, param_rows, seconds_text, side_of
from tasks.cli.main import app
from tasks.cli.runs import Runs
from tasks.common import StageError

runner = CliRunner()


def make_run(client: MlflowClient, name: str, at: int, params: dict[str, str], metrics: dict[str, float]) -> str:
    run = client.create_run("0", start_time=at * 1000, run_name=name, tags={"stage": name})
    for key, value in params.items():
        client.log_param(run.info.run_id, key, value)
    for key, number in metrics.items():
        client.log_metric(run.info.run_id, key, number / 2, step=0)
        client.log_metric(run.info.run_id, key, number, step=1)
    client.set_terminated(run.info.run_id, end_time=at * 1000 + 185_000)
    return str(run.info.run_id)


@pytest.fixture(scope="module")
def store(store_uri: str) -> tuple[str, list[str]]:
    uri, client = store_uri, MlflowClient(store_uri)
    first = make_run(client, "grpo", 100, {"grpo.lr": "1e-05", "seed": "42"}, {"reward": 0.5, "system/cpu": 9.0})
    second = make_run(client, "grpo", 200, {"grpo.lr": "2e-05", "seed": "42", "grpo.beta": "0.1"}, {"reward": 0.75})
    other = make_run(client, "sft", 300, {"seed": "7"}, {"loss": 1.25})
    return uri, [first, second, other]


@pytest.fixture
def params(store: tuple[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Params:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "params.yaml").write_text(f"mlflow: {{tracking_uri: '{store[0]}'}}\n")
    return Params(mlflow=MlflowParams(tracking_uri=store[0]))


def test_runs_are_found_by_id_beginning_and_name(params: Params, store: tuple[str, list[str]]) -> None:
    first, second, other = store[1]
    runs = Runs(params)
    assert runs.find(first).info.run_id == first
    assert runs.find(other[:12]).info.run_id == other
    assert runs.find("grpo").info.run_id == second
    assert runs.find("grpo~1").info.run_id == first
    with pytest.raises(StageError, match="2 runs named 'grpo'; 'grpo~2' is older"):
        runs.find("grpo~2")
    with pytest.raises(StageError, match=r"no run 'nothing'.* \(sft\)"):
        runs.find("nothing")
    with pytest.raises(StageError, match="no run"):
        runs.find("a'b")


def test_what_differs_and_what_was_measured(params: Params, store: tuple[str, list[str]]) -> None:
    sides = [side_of(Runs(params).find(run)) for run in store[1][:2]]
    assert param_rows(sides) == {"grpo.beta": [None, "0.1"], "grpo.lr": ["1e-05", "2e-05"]}
    assert param_rows(sides, everything=True)["seed"] == ["42", "42"]
    assert metric_rows(sides) == {"reward": [0.5, 0.75]}  # the last of 0.25, 0.5
    assert metric_rows(sides, everything=True)["system/cpu"] == [9.0, None]
    assert sides[0].seconds == 185


def test_the_command_prints_a_table_or_json(params: Params, store: tuple[str, list[str]]) -> None:
    shown = runner.invoke(app, ["compare", "grpo~1", "grpo"])
    assert shown.exit_code == 0, shown.output
    assert "params that differ: 2 of 3" in shown.output
    assert "+0.25" in shown.output
    assert "3 min 05 s" in shown.output
    three = runner.invoke(app, ["compare", *store[1], "--json"])
    assert json.loads(three.output)["params"]["seed"] == ["42", "42", "7"]
    listed = runner.invoke(app, ["compare"])
    assert [line.split()[1] for line in listed.output.splitlines() if store[1][2][:8] in line] == [store[1][2][:8]]


def test_mistakes_are_told(params: Params, tmp_path: Path) -> None:
    assert "compares with nothing" in runner.invoke(app, ["compare", "grpo"]).output
    (tmp_path / "params.yaml").write_text("seed: 1\n")
    missing = runner.invoke(app, ["compare"])
    assert missing.exit_code == 2
    assert "no MLflow store here yet" in missing.output
    assert not (tmp_path / "mlflow.db").exists(), "looking makes no store"


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "-"), (3.21, "3.2 s"), (59.4, "59 s"), (185, "3 min 05 s"), (7800, "2 h 10 min")]
)
def test_durations_are_said_shortly(seconds: float | None, text: str) -> None:
    assert seconds_text(seconds) == text
