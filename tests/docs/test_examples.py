"""The worked examples of docs/extending.md run, and what docs/artifacts.md and docs/troubleshooting.md quote is there."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from rlm_core.distill.samples import SftRow
from rlm_core.files import read_json, write_json, write_jsonl
from rlm_core.papers import Paper
from rlm_core.papers.records import Paragraph
from rlm_core.params import Params
from rlm_core.records import Evidence, Judgement, Query, Rollout, Span, Status, Turn, Usage
from rlm_core.repl import probe
from tests.docs.pages import ROOT, blocks, pages, text_of, tracked

SOURCES = "\n".join(
    (ROOT / name).read_text() for name in tracked() if name.endswith(".py") and not name.startswith("tests/")
)
EXAMPLES = blocks("docs/extending.md")
SENTENCE = "Stomatal conductance fell by a third within two days of the drought."


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One paper of 1,000 characters and a question on 68 of them, in the current folder."""
    filler = "The plants were watered every morning. " * 40
    text = (filler[:468] + SENTENCE + filler)[:1000]
    write_json(tmp_path / "data/parsed/p1.json", Paper("p1", title="Drought", pages=(text,)).to_dict())
    query = Query("q1", "What is said about conductance?", paper_ids=("p1",), evidence=(Evidence("p1", SENTENCE),))
    for split in ("train", "val", "test"):
        write_jsonl(tmp_path / f"data/queries/{split}.jsonl", [query.to_dict()] if split == "test" else [])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_example(begins: str) -> dict[str, Any]:
    """The names that an example of the page defines; `begins`: what stands in it alone."""
    (text,) = (block.text for block in EXAMPLES if block.language == "python" and begins in block.text)
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(text, "docs/extending.md", "exec", dont_inherit=True), names)
    return names


def test_the_policy_and_the_judge_work(project: Path) -> None:
    if not probe().full:
        pytest.skip(f"no sandbox on this machine: {probe().explain()}")
    rollout, verdict = asyncio.run(run_example("class LongestWord")["main"]())
    assert rollout.status is Status.ANSWERED
    assert SENTENCE in rollout.answer[0]
    # all of the gold's words are in the answer, which has others too
    assert verdict.recall == 10
    assert 1 < verdict.precision < 10
    assert verdict.reward == (verdict.precision + 10) / 20


def test_the_stage_works(project: Path) -> None:
    logged: dict[str, float] = {}
    params = SimpleNamespace(coverage=run_example("class CoverageParams")["CoverageParams"]())
    stage = SimpleNamespace(params=params, log_metrics=logged.update, log_artifact=lambda path: None)
    run_example("Stage `coverage`")["run"](stage)
    report = read_json(Path("reports/coverage.json"))
    assert report == {"shares": {"p1": len(SENTENCE) / 1000}, "below": []}
    assert logged == {"coverage_mean": len(SENTENCE) / 1000, "coverage_below": 0}


def test_the_entry_of_the_stage_is_like_the_others() -> None:
    (entry,) = (yaml.safe_load(b.text)["coverage"] for b in EXAMPLES if b.language == "yaml" and "cmd:" in b.text)
    others = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
    assert entry["cmd"] == others["report"]["cmd"].replace("report", "coverage")
    assert entry.keys() <= {key for stage in others.values() for key in stage}
    assert all(dep.startswith("data/") or dep == "tasks/coverage.py" or (ROOT / dep).exists() for dep in entry["deps"])


@pytest.mark.parametrize("page", pages())
def test_names_are_in_the_files_they_are_said_to_be_in(page: str) -> None:
    """`NAME` in `FILE`, and `NAME` and `OTHER` in `FILE`."""
    missing = []
    for names, file in re.findall(r"((?:`[\w.]+`(?:, | and ))*`[\w.]+`) in `([\w/]+\.(?:py|yaml))`", text_of(page)):
        text = (ROOT / file).read_text()
        missing += [
            f"{name} in {file}" for name in re.findall(r"`([\w.]+)`", names) if not re.search(rf"\b{name}\b", text)
        ]
    assert missing == []


RECORDS = (Paper, Paragraph, Query, Evidence, Span, Rollout, Turn, Usage, Judgement, SftRow)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_records_have_the_fields_that_are_listed(record: type) -> None:
    (row,) = re.findall(rf"^\| `{record.__name__}` \| (.*) \|$", text_of("docs/artifacts.md"), re.M)
    inner = {"title", "end", "noisy", "children"}  # of sections, a mode, named twice
    listed = set(re.findall(r"`(\w+)`", row))
    fields = {field.name for field in dataclasses.fields(record)} - {"context"}  # never stored
    assert fields - listed == set()
    assert listed - fields - inner - ({"start"} if record is Paper else set()) == set()


def test_every_output_of_a_stage_is_listed() -> None:
    text = text_of("docs/artifacts.md")
    for stage in yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"].values():
        for out in [*stage.get("outs", ()), *stage.get("metrics", ()), *stage.get("plots", ())]:
            name = out if isinstance(out, str) else next(iter(out))
            assert f"`{name}" in text, name


def test_quoted_messages_are_there() -> None:
    """First cells of the tables: each part of a message, between what differs, stands in the code."""
    quoted = re.findall(r"^\| (.+?) \|", text_of("docs/troubleshooting.md"), re.M)
    messages = [span for cell in quoted for span in re.findall(r"`([^`]+)`", cell)]
    ours = [m for m in messages if m not in ("Unable to acquire lock", "rlm-forge: command not found")]
    assert len(ours) > 15
    parts = [part.strip() for message in ours for part in message.split("...") if part.strip(" ;:")]
    assert [part for part in parts if not any(p in SOURCES for p in (part, part.strip(" ;:")))] == []


def test_glossary_of_params() -> None:
    """docs/architecture.md says what each section of the params is for."""
    text = text_of("docs/architecture.md")
    assert [name for name in Params.model_fields if f"`{name}`" not in text] == []
