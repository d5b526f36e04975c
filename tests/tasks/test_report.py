"""Stage `report`: from the files of the other stages to one page and a printed table."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlm_core.files import write_json, write_jsonl
from rlm_core.params import Params
from rlm_core.records import Rollout, Turn
from tasks import report
from tasks.common import Stage, StageError


class NoTracker:
    def log_metrics(self, metrics, step=None):
        assert metrics["report_kib"] > 1

    def log_artifact(self, path):
        assert path == Path("reports/report.html")


@pytest.fixture
def stage(tmp_path, monkeypatch) -> Stage:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    return Stage("report", Params(), NoTracker())  # type: ignore[arg-type]


def evaluation() -> dict:
    arm = {"judge_mean": 0.7, "judge_ci95": [0.6, 0.8], "f1_mean": 0.6, "format_success": 1.0, "pass_at_k": 1.0,
           "seconds_mean": 1.0, "tokens_mean": 10.0, "n": 2}  # fmt: skip
    return {"judge": "lexical", "n": 2, "arms": {"grpo": arm}, "comparisons": []}


def test_the_page_is_made_of_what_there_is_and_the_table_is_printed(stage, capsys):
    write_json(Path("reports/evaluation.json"), evaluation())
    report.run(stage)
    first = Path("reports/report.html").read_text()
    assert "2023-11-14 22:13 UTC" in first
    printed = capsys.readouterr().out
    assert "grpo  0.700  0.600 .. 0.800" in printed
    assert str(Path("reports/report.html").resolve()) in printed

    tree = Rollout("q.0", turns=(Turn(text="print(search('x'))"),), answer=["found"])
    row = {"arm": "grpo", "query_id": "q", "kind": "single", "tier": "1", "question": "Why?", "gold": [], "judgement": None,
           "f1": None, "cause": "none", "rollout": tree.to_dict()}  # fmt: skip
    write_jsonl(Path("reports/rollouts.jsonl"), [row])
    write_json(Path("reports/training.json"), {"steps": [{"step": i, "reward_mean": i / 10} for i in range(5)]})
    write_json(Path("reports/papers.json"), {"papers": 24})
    report.run(stage)
    second = Path("reports/report.html").read_text()
    for part in ("print(search(&#39;x&#39;))", "not judged", "Reinforcement learning", "24"):
        assert part in second
        assert part == "24" or part not in first


def test_the_same_files_give_the_same_page(stage):
    write_json(Path("reports/evaluation.json"), evaluation())
    report.run(stage)
    first = Path("reports/report.html").read_text()
    report.run(stage)
    assert Path("reports/report.html").read_text() == first


def test_missing_and_broken_files_are_named(stage):
    with pytest.raises(StageError, match="dvc repro evaluate"):
        report.run(stage)
    write_json(Path("reports/evaluation.json"), evaluation())
    Path("reports/training.json").write_text("{")
    with pytest.raises(StageError, match=r"reports/training\.json: not JSON"):
        report.run(stage)
    assert not Path("reports/report.html").exists()
