"""`make smoke`: the whole pipeline on real parts, PDFs to report; then what a person would look at."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from mlflow import MlflowClient

from flows.dvc import lock_hash

ROOT = Path(__file__).resolve().parents[2]
SMOKE = ROOT / ".smoke"
pytestmark = pytest.mark.slow

STAGES = ["papers", "parse", "ocr", "groups", "queries", "teach", "distill", "sft", "grpo", "evaluate", "report"]
ARMS = {"base", "sft", "grpo", "expert", "bm25_topk", "full_context", "no_subcalls"}


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    environment = {**os.environ, "RLM_LOCK_DIR": str(tmp_path_factory.mktemp("locks"))}  # others may train meanwhile
    command = [sys.executable, "scripts/smoke.py"]
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1200, check=False)
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-6000:]
    return run.stdout


def test_the_result_is_printed_and_written(output: str) -> None:
    evaluation = json.loads((SMOKE / "reports/evaluation.json").read_text())
    assert evaluation["judge"] == "lexical"
    assert set(evaluation["arms"]) == ARMS
    for arm, figures in evaluation["arms"].items():
        low, high = figures["judge_ci95"]
        assert low <= figures["judge_mean"] <= high, arm
        assert figures["n"] == evaluation["n"] == 4
        assert arm in output
    # the scripted expert finds evidence with the real REPL and tools; an untrained model does not
    assert evaluation["arms"]["expert"]["judge_mean"] > 0.3 > evaluation["arms"]["base"]["judge_mean"]


def test_every_paper_is_accounted_for(output: str) -> None:
    parsed = json.loads((SMOKE / "reports/papers.json").read_text())
    assert [paper["status"] for paper in parsed["papers"]] == ["read"] * 6
    queries = json.loads((SMOKE / "reports/queries.json").read_text())
    assert queries["leakage"] == {"papers": 0, "questions": 0, "evidence": 0}


def test_the_report_is_one_file(output: str) -> None:
    page = (SMOKE / "reports/report.html").read_text()
    assert "<svg" in page
    assert "lexical" in page
    for outside in ('src="http', "src='http", 'href="http', "@import"):
        assert outside not in page


def test_models_can_be_loaded(output: str) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    for name in ("sft", "grpo"):
        folder = SMOKE / "models" / name
        assert AutoTokenizer.from_pretrained(folder).chat_template
        assert AutoModelForCausalLM.from_pretrained(folder).num_parameters() > 0


def test_mlflow_has_a_run_a_stage_under_the_pipelines(output: str) -> None:
    client = MlflowClient(f"sqlite:///{SMOKE / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("rlm-forge")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id])
    parents = [r for r in runs if r.info.run_name == "pipeline"]
    assert len(parents) == 1
    stages = {r.info.run_name: r for r in runs if r.data.tags.get("mlflow.parentRunId") == parents[0].info.run_id}
    assert set(stages) == set(STAGES)
    assert {r.info.status for r in runs} == {"FINISHED"}
    assert "grpo.judge_mean" in parents[0].data.metrics
    assert parents[0].data.tags["prefect_flow_run_id"]
    assert len(client.get_metric_history(stages["grpo"].info.run_id, "reward_mean")) == 2  # a curve of both steps
    traces = client.search_traces(locations=[experiment.experiment_id], max_results=500)
    assert traces
    assert any(a.name == "reward" for t in traces for a in t.info.assessments)


def test_prefect_has_the_flow_run_with_its_states_artifacts_and_logs(output: str) -> None:
    with sqlite3.connect(SMOKE / ".prefect" / "prefect.db") as store:
        states = Counter(row[0] for row in store.execute("select state_name from task_run"))
        flows = store.execute("select name, state_type from flow_run").fetchall()
        artifacts = dict(store.execute("select key, data from artifact").fetchall())
        lines = [row[0] for row in store.execute("select message from log where task_run_id is not null")]
    assert flows == [("papers-to-report", "COMPLETED")]
    assert states == {"Completed": len(STAGES)}
    assert {"results", "mlflow-run", "rollouts", "report"} <= set(artifacts)
    assert {row["arm"] for row in json.loads(json.loads(artifacts["results"]))} == ARMS
    # stages that count their work told how far they were, up to the end
    told = {
        key.removeprefix("progress-"): float(data) for key, data in artifacts.items() if key.startswith("progress-")
    }
    assert told == dict.fromkeys(told, 100.0)
    assert {"ocr", "teach", "sft", "grpo"} <= set(told)
    # each stage's own lines are in its task run's log, and the hash of what it left in dvc.lock
    for stage in STAGES:
        assert any(f"Running stage '{stage}'" in line for line in lines), stage
        assert f"stage '{stage}' is done (dvc.lock {lock_hash(stage, SMOKE)})" in lines


def test_nothing_is_done_twice_and_nothing_is_left_running(output: str) -> None:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    start = time.monotonic()
    again = subprocess.run(
        [sys.executable, "-m", "dvc", "repro"], cwd=SMOKE, env=environment, capture_output=True, text=True, check=True
    )
    seconds = time.monotonic() - start
    assert seconds < 3 or os.getloadavg()[0] > (os.cpu_count() or 1), f"a repro of nothing took {seconds:.1f} s"
    assert again.stdout.count("didn't change, skipping") == len(STAGES)
    assert "Running stage" not in again.stdout
    processes = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert [line for line in processes.splitlines() if str(SMOKE) in line] == []
