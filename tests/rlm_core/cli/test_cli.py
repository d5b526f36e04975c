"""The command line as a person uses it, over real PDFs and with the scripted expert."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from rlm_core.cli import ask
from rlm_core.cli.ask import read_papers
from rlm_core.cli.main import app
from rlm_core.papers.sample import library_content, write_sample_library
from rlm_core.params import validate_params
from rlm_core.records import Rollout
from rlm_core.serving.citations import CitedPassage, cite

ROOT = Path(__file__).resolve().parents[3]
runner = CliRunner()


@pytest.fixture(scope="module")
def pdfs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pdfs")
    write_sample_library(folder, topics=1, papers_per_topic=2)
    return folder


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")


def test_ask_prints_evidence_with_paper_and_page(pdfs: Path) -> None:
    paper = library_content(topics=1, papers_per_topic=2)[0]
    phrase = next(p.phrase for s in paper.sections for p in s.paragraphs if p.phrase)
    result = runner.invoke(
        app, ["ask", f'Which passage discusses "{phrase}"?', "--papers", str(pdfs), "--model", "expert"]
    )
    assert result.exit_code == 0, result.output
    assert "page " in result.output
    assert "expert: " in result.output
    assert phrase.split()[0].lower() in result.output.lower()


def test_evidence_is_placed_on_its_page_and_invention_is_not(pdfs: Path) -> None:
    library = read_papers(pdfs)
    paper = next(iter(library.values()))
    passage = next(p.text for p in paper.paragraphs if p.kind == "body" and p.page == 2 and len(p.text) > 200)
    invention = "The moon is made of a soft green cheese that nobody ordered, and it was late again today."
    held, made_up = cite(Rollout("r", answer=[passage, invention]), library)
    assert (held.paper_id, held.title, held.page) == (paper.id, paper.title, 2)
    assert held.score > 0.95
    assert made_up == CitedPassage(invention)


def test_a_broken_pdf_is_named_and_left_out(pdfs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mixed"
    folder.mkdir()
    good = next(pdfs.glob("*.pdf"))
    (folder / good.name).write_bytes(good.read_bytes())
    (folder / "notes.pdf").write_text("plain text with a PDF's name")
    result = runner.invoke(app, ["ask", "What is measured?", "--papers", str(folder), "--model", "expert", "-q"])
    assert result.exit_code == 0, result.output
    assert "left out" in result.output
    assert "notes.pdf" in result.output


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["ask", "q", "--papers", "nowhere", "--model", "expert"], "no such folder"),
        (["ask", "q", "--papers", ".", "--model", "expert"], "no PDFs in this folder"),
        (["rollouts", "list"], "dvc repro teach"),
        (["queries", "report"], "dvc repro queries"),
        (["papers", "list"], "dvc repro parse"),
        (["params", "check", "none.yaml"], "no such params file"),
        (["params", "describe", "magic"], "no section 'magic'"),
    ],
)
def test_mistakes_are_told(arguments: list[str], told: str) -> None:
    result = runner.invoke(app, arguments)
    assert result.exit_code == 2
    assert told in result.output
    assert "Traceback" not in result.output


def test_odd_files_of_a_folder_cost_no_paper_and_never_hang(pdfs: Path, tmp_path: Path, monkeypatch) -> None:
    """Two papers of one name, a folder named as a PDF, a pipe, a link to nothing, a damaged kept reading."""
    monkeypatch.setattr(ask, "CACHE", tmp_path / "cache")
    first, second = sorted(pdfs.glob("*.pdf"))[:2]
    for place, source in (("a", first), ("folder.pdf", second)):
        (tmp_path / "lib" / place).mkdir(parents=True)
        (tmp_path / "lib" / place / "same.PDF").write_bytes(source.read_bytes())
    os.mkfifo(tmp_path / "lib" / "pipe.pdf")
    (tmp_path / "lib" / "gone.pdf").symlink_to("nowhere")
    library = read_papers(tmp_path / "lib")
    assert list(library) == ["same", "same-2"]
    for kept in (tmp_path / "cache").iterdir():
        kept.write_bytes(kept.read_bytes()[:100])
    assert read_papers(tmp_path / "lib") == library


def test_no_model_is_told(pdfs: Path) -> None:
    result = runner.invoke(app, ["ask", "q", "--papers", str(pdfs)])
    assert result.exit_code == 2
    assert "no trained model here" in result.output


def test_params_are_checked_and_described() -> None:
    assert runner.invoke(app, ["params", "check", str(ROOT / "params.yaml")]).exit_code == 0
    described = runner.invoke(app, ["params", "describe", "grpo"]).output
    assert "rollouts_per_query" in described
    assert ">= 2" in described


def test_doctor_checks_the_sandbox() -> None:
    rows = {row["what"]: row for row in json.loads(runner.invoke(app, ["doctor", "--json"]).output)}
    assert all(rows[f"sandbox: {layer}"]["level"] == "ok" for layer in ("landlock", "seccomp", "a worker")), rows


def test_params_fill_writes_every_value_and_keeps_the_heading(tmp_path: Path) -> None:
    file = tmp_path / "params.yaml"
    file.write_text("# mine\n# of two lines\ngrpo: {lr: 0.001}\n")
    assert runner.invoke(app, ["params", "fill", str(file)]).exit_code == 0
    assert file.read_text().startswith("# mine\n# of two lines\nseed: 42\n")
    assert yaml.safe_load(file.read_text()) == validate_params({"grpo": {"lr": 0.001}}).model_dump(mode="json")
    once = file.read_text()
    runner.invoke(app, ["params", "fill", str(file)])
    assert file.read_text() == once
