"""`rlm-forge status`: what is stale, and what follows from it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from mlflow import MlflowClient
from typer.testing import CliRunner

from tasks.cli.main import app
from tasks.cli.stages import combine

runner = CliRunner()

STAGES = {
    "papers": {"deps": ["papers.py"], "outs": ["data/papers"]},
    "parse": {"deps": ["data/papers"], "outs": [{"data/parsed": {"cache": False}}]},
    "ocr": {"deps": ["data/papers/one.pdf"], "outs": ["data/ocr"]},
    "notes": {"deps": ["notes.txt"], "outs": ["data/papers2"]},
    "report": {"deps": ["data/parsed", "data/papers2"], "outs": ["report.html"]},
}


def test_a_stale_stage_has_reasons_and_later_ones_wait() -> None:
    changed = {
        "papers": [
            {"changed deps": {"papers.py": "modified", "params.yaml": {"papers.max": "new"}}},
            "changed command",
        ],
    }
    states = {s.name: s for s in combine(STAGES, changed, {"papers", "parse", "ocr", "notes"})}
    assert states["papers"].reasons == ("papers.py modified", "papers.max new", "changed command")
    assert states["parse"].after == states["ocr"].after == ("papers",)
    assert (states["notes"].reasons, states["notes"].after) == ((), ())
    assert states["report"].after == ("parse",)
    assert states["parse"].outs == ("data/parsed",)
    assert [s.made for s in states.values()] == [True, True, True, True, False]


def test_everything_is_up_to_date_when_nothing_changed() -> None:
    assert all(not s.reasons and not s.after for s in combine(STAGES, {}, set(STAGES)))


def test_the_command_over_a_real_dvc_folder_and_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store_uri: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    Path("params.yaml").write_text(f"mlflow: {{tracking_uri: '{store_uri}'}}\n")
    refused = runner.invoke(app, ["status"])
    assert refused.exit_code == 2
    assert "rlm-forge init DIR" in " ".join(refused.output.split())
    Path("dvc.yaml").write_text(
        "stages:\n  papers: {cmd: cp a b, deps: [a], outs: [b]}\n  parse: {cmd: cp b c, deps: [b], outs: [c]}\n"
    )
    Path("a").write_text("1")
    dvc = [sys.executable, "-m", "dvc"]
    for command in (["init", "--no-scm", "-q"], ["repro", "-q"]):
        subprocess.run([*dvc, *command], check=True)
    client = MlflowClient(store_uri)
    run = client.create_run("0", start_time=1_700_000_000_000, run_name="papers", tags={"stage": "papers"})
    client.log_metric(run.info.run_id, "stage_seconds", 75)
    client.log_metric(run.info.run_id, "peak_memory_mb", 1536)
    client.set_terminated(run.info.run_id)

    fresh = runner.invoke(app, ["status"])
    assert fresh.exit_code == 0, fresh.output
    assert "Everything is up to date." in fresh.output
    assert "1 min 15 s" in fresh.output, fresh.output
    assert "1.5 GiB" in fresh.output
    Path("a").write_text("2")
    papers, parse = json.loads(runner.invoke(app, ["status", "--json"]).output)["stages"]
    assert (papers["reasons"], parse["reasons"], parse["after"]) == (["a modified"], [], ["papers"])
    assert (papers["last_run"]["seconds"], parse["last_run"]) == (75, None)
