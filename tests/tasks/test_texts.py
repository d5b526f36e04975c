"""Papers that are text already, with questions of one's own, go through the stages from `papers` to `queries`."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from rlm_core.files import read_json, read_jsonl, write_json, write_jsonl
from rlm_core.papers import attach_context, load_library
from rlm_core.papers.texts import text_paper
from rlm_core.params import validate_params
from rlm_core.records import Query
from tasks import groups, ocr, papers, parse, queries
from tasks.common import Stage, StageError

LIBRARY = Path(__file__).resolve().parents[1] / "rlm_core" / "synthesis" / "library.py"


class Log:
    """Takes what a stage logs, in place of MLflow."""

    def log_metrics(self, metrics, step=None) -> None: ...

    def log_artifact(self, path) -> None: ...


@pytest.fixture
def texts(tmp_path, monkeypatch):
    """Folder of the made-up library's papers as texts."""
    monkeypatch.chdir(tmp_path)
    spec = importlib.util.spec_from_file_location("made_up_texts", LIBRARY)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for paper in module.library()[1].values():
        body = [p.text for p in paper.paragraphs if p.kind == "body"]
        write_json(
            Path("texts") / f"{paper.id}.json", text_paper(paper.id, paper.title, "", [("Results", body)]).to_dict()
        )
    return Path("texts")


def run(module, **sections):
    module.run(Stage(module.__name__.rsplit(".", 1)[-1], validate_params(sections), Log()))


def test_texts_and_their_questions_pass_all_stages(texts):
    write_json(texts / "notes.json", {"not": "a paper"})
    source = {"papers": {"source": "texts", "directory": str(texts)}}
    for module in (papers, parse, ocr, groups):
        run(module, **source)
    manifest = {row["id"]: row for row in read_jsonl(Path("data/papers/manifest.jsonl"))}
    assert len(manifest) == 13 and manifest["notes"]["problem"] == "not-a-paper"
    parsed, clean = load_library(Path("data/parsed")), load_library(Path("data/ocr"))
    assert parsed.keys() == clean.keys() and len(parsed) == 12
    assert {p.mode for p in parsed.values()} == {"noisy"} and {p.mode for p in clean.values()} == {"ocr"}
    assert all(parsed[i].text == clean[i].text for i in parsed)
    assert {row["status"] for row in read_json(Path("reports/ocr.json"))["papers"]} == {"read", "skipped"}
    rows = [
        {"question": f"What is said in {i}?", "evidence": [{"paper": i, "text": clean[i].paragraphs[2].text}]}
        for i in sorted(clean)
    ]
    write_jsonl(Path("mine.jsonl"), rows)
    run(queries, **source, queries={"writer": "import", "questions": "mine.jsonl"})
    made = [Query.from_dict(r) for s in ("train", "val", "test") for r in read_jsonl(Path(f"data/queries/{s}.jsonl"))]
    assert len(made) == 12 and {q.provenance["writer"] for q in made} == {"import"}
    for query in made:
        (evidence,) = query.evidence
        text = attach_context(query, parsed).context[evidence.paper_id]["text"]
        assert text[evidence.span.start : evidence.span.end] == evidence.text


def test_a_faulty_question_file_stops_the_stage_at_its_line(texts):
    source = {"papers": {"source": "texts", "directory": str(texts)}}
    for module in (papers, parse, ocr, groups):
        run(module, **source)
    Path("mine.jsonl").write_text('{"question": "Why?"}\n')
    with pytest.raises(StageError, match=r"mine\.jsonl:1: evidence: Field required"):
        run(queries, queries={"writer": "import", "questions": "mine.jsonl"})
    with pytest.raises(StageError, match=r"queries\.questions: none\.jsonl"):
        run(queries, queries={"writer": "import", "questions": "none.jsonl"})


def test_a_folder_without_texts_says_so(texts):
    Path("empty").mkdir()
    with pytest.raises(StageError, match=r"no usable text in papers\.source 'texts'"):
        run(papers, papers={"source": "texts", "directory": "empty"})
