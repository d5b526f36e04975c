"""Questions about made conversations: the stage `queries` writes them, and the teacher reads them as it reads papers."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from rlm_core.files import read_jsonl
from rlm_core.params import validate_params
from rlm_core.records import Query
from rlm_core.rollouts import read_rollouts
from tasks import queries, teach
from tasks.common import Stage, StageError
from tasks.contexts import MADE, read_contexts, write_contexts

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "stubs"))

MRCR = {"train_tokens": [1000, 2000], "train_conversations": 2, "test_tokens": [3000, 4000], "test_needles": 3}


class Tracker:
    def __init__(self) -> None:
        self.metrics: dict[str, float] = {}
        self.artifacts: list[Path] = []

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        self.metrics.update(metrics)

    def log_artifact(self, path: Path) -> None:
        self.artifacts.append(path)

    def log_datasets(self, context: str, *paths: Path) -> None:
        self.artifacts += paths


def stage_of(name: str, **changes: Any) -> Stage:
    params = validate_params({"queries": {"writer": "mrcr", "mrcr": MRCR}, **changes})
    return Stage(name, params, Tracker())  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data/parsed").mkdir(parents=True)
    queries.run(stage_of("queries"))


def rows(split: str) -> list[Query]:
    return [Query.from_dict(row) for row in read_jsonl(Path(f"data/queries/{split}.jsonl"))]


def test_splits_have_their_lengths_and_needles() -> None:
    assert [len(rows(split)) for split in ("train", "val", "test")] == [2 * 2, 2 * 3, 2 * 3]
    library = read_contexts()
    assert len({q.paper_ids for split in ("train", "val", "test") for q in rows(split)}) == len(library) == 6
    for split, low, high in (("train", 900, 2200), ("test", 2800, 4300)):
        for query in rows(split):
            assert low < query.provenance["tokens"] < high
            (evidence,) = query.evidence
            assert evidence.span is not None
            assert library[evidence.paper_id].text[evidence.span.start : evidence.span.end] == evidence.text
    again = {q.id: q for q in rows("train")}
    queries.run(stage_of("queries"))
    assert {q.id: q for q in rows("train")} == again


def test_questions_about_papers_leave_no_conversations() -> None:
    assert MADE.is_dir()
    write_contexts({})
    assert not MADE.exists()
    assert read_contexts() == {}


def test_a_teacher_reads_conversations(monkeypatch: pytest.MonkeyPatch) -> None:
    from openai_server import OpenAIStub

    monkeypatch.setattr(teach, "log_rollouts", lambda *args, **kwargs: None)
    code = "```python\ntext = str(list(context.values())[0]['text'])\nprint(len(text))\n```"

    def reply(body: dict[str, Any]) -> str:
        return code if len(body["messages"]) < 4 else "```python\nFINAL([text[:200]])\n```"

    with OpenAIStub.in_thread(reply) as stub:
        endpoint = {"base_url": stub.url, "model": "m", "max_retries": 0}
        teacher = {"policy": "endpoint", "endpoint": endpoint, "rollouts_per_query": 1}
        teach.run(stage_of("teach", teach=teacher))
    trees = list(read_rollouts(teach.OUT))
    assert len(trees) == 10
    assert all(tree.answer[0].startswith("User: Write a ") for tree in trees)


def test_documents_of_a_benchmark_are_questions_to_teach_on() -> None:
    rows_of_file = [
        {
            "id": f"r{n}", "context": f"Document {n // 2}. The code is {n}.", "language": "English", "token_length": "8k",
            "primary_task": "T3. QA", "secondary_task": "T3.2 Single-Hop Fact QA", "question_nonthinking": f"Code {n}?",
            "answer": [f"{n}"],
        }
        for n in range(40)
    ]  # fmt: skip
    for row in rows_of_file[1::2]:  # two questions a document
        row["context"] = rows_of_file[int(row["id"][1:]) - 1]["context"]
    Path("lbp.json").write_text(json.dumps(rows_of_file))
    shares = {"val_share": 0.2, "test_share": 0.2}
    stage = stage_of("queries", queries={"writer": "longbench-pro", "questions": "lbp.json", **shares})
    queries.run(stage)
    splits = {split: rows(split) for split in ("train", "val", "test")}
    assert sum(map(len, splits.values())) == 40
    documents = [{q.paper_ids for q in found} for found in splits.values()]
    assert sum(map(len, documents)) == len(set().union(*documents)) == 20  # none in two splits
    assert all(documents)
    library = read_contexts()
    for query in splits["train"]:
        assert library[query.paper_ids[0]].text.startswith("Document")
        assert query.evidence[0].span is None
    Path("lbp.json").unlink()
    with pytest.raises(StageError, match=r"queries\.questions: benchmark longbench-pro: no such file"):
        queries.run(stage)


def test_what_does_not_fit_is_told() -> None:
    with pytest.raises(ValueError, match=r"queries\.writer is 'mrcr' but queries\.mrcr is not set"):
        validate_params({"queries": {"writer": "mrcr"}})
    with pytest.raises(ValueError, match=r"queries\.mrcr\.train_tokens must be two numbers"):
        validate_params({"queries": {"writer": "mrcr", "mrcr": {"train_tokens": [5000, 2000]}}})
