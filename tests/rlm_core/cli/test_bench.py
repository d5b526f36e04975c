"""`rlm-forge bench` and `rlm-forge judge check` as a person types them, against an endpoint on the loopback."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rlm_core.cli.main import app
from rlm_core.files import write_jsonl
from rlm_core.records import Evidence, Query

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "stubs"))
runner = CliRunner()
LOOK = "```python\nprint(context[:20])\n```"


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    rows = [
        {
            "id": number,
            "context_len": 64,
            "context_window_text": f"line {number}",
            "question": f"Question {number}: how many?",
            "task": "TASK.COUNT" if number % 2 else "TASK.OTHER",
            "answer": "[4]",
            "answer_type": "ANSWER_TYPE.NUMERIC",
        }
        for number in range(4)
    ]
    write_jsonl(Path("rows.jsonl"), rows)


def reply(body: dict[str, Any]) -> str:
    """Looks once, then answers 4, and 5 to question 3: 0.75."""
    if len(body["messages"]) < 4:
        return LOOK
    return f"```python\nFINAL({5 if 'Question 3' in body['messages'][1]['content'] else 4})\n```"


def bench(url: str, *options: str) -> Any:
    return runner.invoke(
        app,
        ["bench", "oolong", "--file", "rows.jsonl", "--model", url, "--name", "stub", "--concurrency", "1", *options],
    )


def test_a_benchmark_is_run_scored_and_resumed() -> None:
    from openai_server import Fault, OpenAIStub

    with OpenAIStub.in_thread(reply) as stub:
        stub.faults.extend([Fault()] * 2 + [Fault(status=401)])
        result = bench(stub.url)
        assert result.exit_code == 0, result.output
        report = json.loads(Path("reports/bench/oolong-32768.json").read_text())
        assert (report["n"], report["scored"], report["failed_rollouts"]) == (4, 3, 1)
        assert "1 rollouts failed" in result.output
        asked = len(stub.posts)

        result = bench(stub.url)
        assert len(stub.posts) - asked == 2  # the failed one alone, two turns
    report = json.loads(Path("reports/bench/oolong-32768.json").read_text())
    assert (report["n"], report["scored"], report["failed_rollouts"]) == (4, 4, 0)
    assert report["score_mean"] == pytest.approx((3 + 0.75) / 4)
    assert report["by"]["task"]["TASK.COUNT"]["score_mean"] == pytest.approx((1 + 0.75) / 2)
    assert report["score_ci95"][0] <= report["score_mean"] <= report["score_ci95"][1]
    assert [row["scores"] for row in report["items"]] == [[1.0], [1.0], [1.0], [0.75]]
    assert "0.938" in result.output


def test_options_choose_items_and_the_hint_reaches_the_model() -> None:
    from openai_server import OpenAIStub

    with OpenAIStub.in_thread(reply) as stub:
        result = bench(stub.url, "--only", "task=TASK.COUNT", "--limit", "1", "--hint", "default", "--samples", "2")
        assert result.exit_code == 0, result.output
        assert len(stub.posts) == 4  # two rollouts of two turns
        assert "The problem is made of steps" in stub.posts[0]["messages"][1]["content"]
    report = json.loads(Path("reports/bench/oolong-32768.json").read_text())
    assert report["n"] == 1
    assert len(report["items"][0]["scores"]) == 2


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["bench", "magic", "--model", "expert"], "unknown benchmark 'magic'"),
        (["bench", "oolong", "--model", "expert"], "reads a file of yours"),
        (["bench", "oolong", "--file", "rows.jsonl", "--model", "nowhere"], "no such model folder"),
        (
            ["bench", "oolong", "--file", "rows.jsonl", "--model", "http://127.0.0.1:9/v1"],
            "name the model there with --name",
        ),
        (["bench", "oolong", "--file", "rows.jsonl", "--model", "expert", "--only", "task"], "expected KEY=VALUE"),
        (
            ["bench", "oolong", "--file", "rows.jsonl", "--model", "expert", "--only", "task=x"],
            "task is one of TASK.COUNT",
        ),
        (["judge", "check"], "params.yaml: no such params file"),
    ],
)
def test_mistakes_are_told(arguments: list[str], told: str) -> None:
    result = runner.invoke(app, arguments)
    assert result.exit_code == 2
    assert told in result.output
    assert "Traceback" not in result.output


def test_a_judge_is_checked_from_the_command_line() -> None:
    texts = (
        "The rivers of the north carry silt down to the warm lagoons. Reeds hold it back for most of the summer months.",
        "Our panel judged every essay twice without knowing its writer. Two readers who differed met once to agree.",
    )
    rows = [
        Query(f"q{i}", "What?", paper_ids=(f"p{i}",), evidence=(Evidence(f"p{i}", t),)) for i, t in enumerate(texts)
    ]
    write_jsonl(Path("data/queries/train.jsonl"), [row.to_dict() for row in rows])
    Path("params.yaml").write_text("seed: 1\n")
    result = runner.invoke(app, ["judge", "check"])
    assert result.exit_code == 0, result.output
    assert "weighted kappa" in result.output and "passed" in result.output
    report = json.loads(Path("reports/judge-check.json").read_text())
    assert report["judge"] == "lexical" and report["passed"]
    assert Path("reports/judge-check.png").read_bytes()[:4] == b"\x89PNG"
    assert not Path("reports/judge-check.html").exists()
    result = runner.invoke(app, ["judge", "check", "--html"])
    assert "reports/judge-check.html" in result.output
    assert "<h1>Check of the judge lexical</h1>" in Path("reports/judge-check.html").read_text()

    result = runner.invoke(app, ["judge", "check", "--url", "http://127.0.0.1:9/v1"])
    assert result.exit_code == 2
    assert "name the model there with --name" in result.output

    from openai_server import OpenAIStub

    with OpenAIStub.in_thread(api_key="right") as stub:
        result = runner.invoke(app, ["judge", "check", "--url", stub.url, "--name", "m"])
    assert result.exit_code == 2
    assert "HTTP 401" in result.output and "OPENAI_API_KEY" in result.output
