"""Stage `queries` on a made-up library: files, report, metrics and clear errors."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from rlm_core.files import read_json, read_jsonl, write_json, write_jsonl
from rlm_core.papers import attach_context, load_library
from rlm_core.params import validate_params
from rlm_core.records import Query
from tasks import queries
from tasks.common import Stage, StageError, open_stage, outside_reason
from tests.stubs.openai_server import OpenAIStub

LIBRARY = Path(__file__).resolve().parents[1] / "rlm_core" / "synthesis" / "library.py"


def made_up_library(**options):
    spec = importlib.util.spec_from_file_location("made_up_library", LIBRARY)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.library(**options)


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_inputs(**options):
    groups, ocr, parsed = made_up_library(**options)
    write_jsonl(queries.GROUPS, groups)
    for folder, papers in ((queries.OCR, ocr), (queries.PARSED, parsed)):
        for paper in papers.values():
            write_json(folder / f"{paper.id}.json", paper.to_dict())


class Log:
    """Takes what the stage logs, in place of MLflow."""

    def __init__(self) -> None:
        self.metrics: dict[str, float] = {}
        self.artifacts: list[str] = []

    def log_metrics(self, metrics, step=None) -> None:
        self.metrics.update(metrics)

    def log_artifact(self, path) -> None:
        self.artifacts.append(path.as_posix())


def run(**section) -> Stage:
    stage = Stage("queries", validate_params({"queries": section}), Log())
    queries.run(stage)
    return stage


def test_the_stage_writes_splits_and_a_report(project):
    write_inputs()
    stage = run(single_per_paper=4)
    rows = {
        split: [Query.from_dict(r) for r in read_jsonl(Path(f"data/queries/{split}.jsonl"))]
        for split in ("train", "val", "test")
    }
    assert all(len(r) > 12 for r in rows.values())
    report = read_json(queries.REPORT)
    assert {s: len(r) for s, r in rows.items()} == {s: row["queries"] for s, row in report["splits"].items()}
    assert report["leakage"] == {"papers": 0, "questions": 0, "evidence": 0}
    assert report["alignment"]["score_mean"] == 1.0
    assert any("at least 128" in w for w in report["warnings"])
    assert stage.metrics["queries_train"] == len(rows["train"]) and stage.tracker.metrics["leaked_papers"] == 0
    assert stage.tracker.artifacts == ["reports/queries.json"]
    library = load_library(queries.PARSED)
    query = attach_context(rows["test"][0], library)
    for evidence in query.evidence:
        text = query.context[evidence.paper_id]["text"]
        assert " ".join(text[evidence.span.start : evidence.span.end].split()) == evidence.text


def test_the_same_params_write_the_same_files(project):
    write_inputs()
    run()
    first = {p.name: p.read_bytes() for p in queries.OUT.iterdir()}
    run()
    assert {p.name: p.read_bytes() for p in queries.OUT.iterdir()} == first


def test_missing_inputs_name_the_stage_that_makes_them(project):
    with pytest.raises(StageError, match="dvc repro groups"):
        run()
    write_jsonl(queries.GROUPS, [{"id": "g", "paper_ids": ["a"]}])
    with pytest.raises(StageError, match="dvc repro ocr"):
        run()


def test_two_papers_are_too_few(project):
    write_inputs(topics=("soil",), papers=2)
    with pytest.raises(StageError, match="at least 3"):
        run()


def test_a_library_without_prose_says_so(project):
    write_inputs()
    for path in queries.OCR.iterdir():
        row = read_json(path)
        write_json(path, row | {"paragraphs": [p | {"text": "Short."} for p in row["paragraphs"]]})
    with pytest.raises(StageError, match="not one question"):
        run()


def test_a_dead_endpoint_is_a_clear_error(project):
    write_inputs()
    endpoint = {"base_url": "http://127.0.0.1:9/v1", "model": "m", "max_retries": 0}
    with pytest.raises(StageError, match="endpoint failed") as stop:
        run(writer="endpoint", endpoint=endpoint)
    assert outside_reason(stop.value)


def test_an_endpoint_that_refuses_the_key_is_not_asked_again(project):
    write_inputs()
    with OpenAIStub.in_thread(api_key="right") as stub:
        endpoint = {"base_url": stub.url, "model": "m", "max_retries": 0}
        with pytest.raises(StageError, match="OPENAI_API_KEY") as stop:
            run(writer="endpoint", endpoint=endpoint)
    assert not outside_reason(stop.value)
    assert not queries.OUT.exists()


@pytest.mark.slow
def test_its_figures_reach_mlflow(project):
    write_inputs()
    with open_stage("queries", validate_params({})) as stage:
        queries.run(stage)
    run = stage.tracker.client.get_run(stage.tracker.run_id)
    assert run.data.metrics["queries_total"] == read_json(queries.REPORT)["total"]
    assert run.info.status == "FINISHED"
