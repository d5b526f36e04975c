"""`rlm-forge queries` as a person uses it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from rlm_core.cli.main import app
from rlm_core.files import read_json, write_json, write_jsonl
from rlm_core.papers.records import Paper, Paragraph
from rlm_core.records import Evidence, Query, Span
from rlm_core.synthesis.marks import Mark, add_mark

TEXT = "Winter rye took up most of the nitrate before the first frost came, and less of it after the thaw of the second year."
runner = CliRunner()


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    for number, split in enumerate(("train", "val", "test")):
        paper = f"paper{number}"
        question = Query(f"q{number}", f"What did crop {number} take up?", "single", "1", (paper,),
                         (Evidence(paper, f"{TEXT} {'!' * number}", Span(0, 50, 1.0, ((0, 50),))),))  # fmt: skip
        write_jsonl(Path(f"data/queries/{split}.jsonl"), [question.to_dict()])
        made = Paper(paper, f"Paper {number}", pages=(TEXT,), paragraphs=(Paragraph(TEXT, 1, (0, 0, 9, 9)),))
        for view in ("parsed", "ocr"):
            write_json(Path(f"data/{view}/{paper}.json"), made.to_dict())
    return tmp_path


def run(*args: str) -> str:
    result = runner.invoke(app, ["queries", *args])
    assert result.exit_code == 0, result.output
    return result.output


def test_report_prints_counts_leaks_and_rejections() -> None:
    write_json(Path("reports/queries.json"), {"rejected": {"phrase in too many passages": 7}})
    output = run("report", "--json", "out.json")
    assert "phrase in too many passages" in output and "leak(s) between splits" in output
    kinds = {leak["kind"] for leak in read_json(Path("out.json"))["leaks"]}
    assert kinds == {"near-duplicate paper", "evidence", "question"}  # three times the same text


def test_show_prints_questions_and_their_place() -> None:
    assert "What did crop 1 take up?" in run("show", "--split", "val")


def test_review_serves_until_interrupted_and_prints_the_share(project: Path) -> None:
    # A shell that starts the tests in the background has SIGINT ignored, and children would inherit that.
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from rlm_core.cli.main import app; app()"
    )
    command = [sys.executable, "-c", code, "queries", "review", "--count", "2"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    try:
        assert server.stdout is not None
        found = re.search(r"(\d+) questions at (http://127\.0\.0\.1:\d+/)", server.stdout.readline())
        assert found is not None and found[1] == "2"
        with urllib.request.urlopen(found[2], timeout=10) as page:
            assert page.read().decode().count("<article") == 2
        add_mark(Path("questions/marks.jsonl"), Mark("q0", "good"))
        time.sleep(0.1)
        server.send_signal(signal.SIGINT)
        output, _ = server.communicate(timeout=20)
    finally:
        server.kill()
    assert server.returncode == 0 and "0.21 to 1.00" in output  # Wilson, 1 of 1


def test_a_port_in_use_and_a_wrong_split_are_clear_errors() -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = runner.invoke(app, ["queries", "review", "--port", str(taken.getsockname()[1])])
    assert result.exit_code == 2 and "--port 0" in result.output
    result = runner.invoke(app, ["queries", "review", "--split", "dev"])
    assert result.exit_code == 2 and "there are train, val, test and all" in result.output


def test_plan_states_calls_and_cost() -> None:
    write_jsonl(Path("data/groups.jsonl"), [{"id": f"g{n}", "paper_ids": [f"paper{n}"]} for n in range(3)])
    endpoint = {
        "base_url": "http://127.0.0.1:9/v1",
        "model": "m",
        "price_in_per_million": 1,
        "price_out_per_million": 1,
    }
    for section in ({"writer": "endpoint", "endpoint": endpoint}, {}):
        Path("params.yaml").write_text(yaml.safe_dump({"queries": section}))
        result = runner.invoke(app, ["queries", "plan"])
        if section:
            assert (
                result.exit_code == 0 and "0 calls for 0 questions" in result.output
            )  # their text is too short to ask
        else:
            assert result.exit_code == 2 and "asks no endpoint" in result.output


def test_missing_queries_name_the_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    for command in ("report", "show", "review"):
        result = runner.invoke(app, ["queries", command])
        assert result.exit_code == 2 and "dvc repro queries" in result.output
