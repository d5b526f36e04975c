"""Questions that were imported go through the whole pipeline, papers to report, with the smoke profile."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from flows.workspace import copy_tree

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.proof
IMPORT = "import sys; from tasks.cli.main import app; app(sys.argv[1:])"


def made_up() -> dict[str, list[str]]:
    """Paragraphs of twelve papers by id."""
    path = ROOT / "tests/rlm_core/synthesis/library.py"
    spec = importlib.util.spec_from_file_location("made_up_papers", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {i: [p.text for p in paper.paragraphs if p.kind == "body"] for i, paper in module.library()[1].items()}


def asked(paragraph: str) -> str:
    """The paragraph's phrase stands after its first "of the"."""
    return f"What is said about the {paragraph.split(' of the ')[1].split(' was over')[0]}?"


def as_jsonl(papers: dict[str, list[str]]) -> str:
    rows: list[dict[str, Any]] = []
    for paper, paragraphs in papers.items():
        rows.append({"paper": paper, "title": paper, "sections": [{"title": "Results", "paragraphs": paragraphs}]})
        rows += [{"question": asked(p), "evidence": [{"paper": paper, "text": p}]} for p in paragraphs[:4]]
    return "\n".join(map(json.dumps, rows))


def as_qasper(papers: dict[str, list[str]]) -> str:
    def question(paragraph: str) -> dict[str, Any]:
        answer = {"unanswerable": False, "evidence": [paragraph], "highlighted_evidence": [paragraph]}
        return {"question": asked(paragraph), "question_id": asked(paragraph), "answers": [{"answer": answer}]}

    return json.dumps(
        {
            paper: {
                "title": paper,
                "abstract": "",
                "full_text": [{"section_name": "Results", "paragraphs": paragraphs}],
                "qas": [question(p) for p in paragraphs[:4]],
            }
            for paper, paragraphs in papers.items()
        }
    )


def through(folder: Path, file: Path, form: str) -> dict[str, Any]:
    """Import `file` in a copy of this tree, run every stage; what `evaluate` reports."""
    copy_tree(folder)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("RLM_", "MLFLOW_", "DVC_"))}
    environment |= {
        "RLM_LOCK_DIR": str(folder / ".cache"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }

    def run(*command: str) -> None:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]

    run(sys.executable, "-c", IMPORT, "queries", "import", str(file), "--format", form, "--out", "imported")
    params = yaml.safe_load((folder / "profiles/smoke.yaml").read_text())
    params["papers"] |= {"source": "texts", "directory": "imported/papers"}
    params["queries"] |= {"writer": "import", "questions": "imported/questions.jsonl"}
    (folder / "params.yaml").write_text(yaml.safe_dump(params))
    (folder / "dvc.lock").unlink(missing_ok=True)
    run(sys.executable, "-m", "dvc", "repro")
    assert (folder / "reports/report.html").stat().st_size > 10_000
    return json.loads((folder / "reports/evaluation.json").read_text())


@pytest.mark.parametrize(("form", "write"), [("jsonl", as_jsonl), ("qasper", as_qasper)])
def test_own_questions_become_a_judged_model(form: str, write: Callable[..., str], tmp_path: Path) -> None:
    file = tmp_path / f"set.{form.removeprefix('qasper') or 'json'}"
    file.write_text(write(made_up()))
    arms = through(tmp_path / "copy", file, form)["arms"]
    assert arms["expert"]["judge_mean"] > 0.3 > arms["base"]["judge_mean"]


def test_evidence_inference_becomes_a_judged_model(shared_eval: Path, tmp_path: Path) -> None:
    import gzip

    with gzip.open(shared_eval / "evidence_inference_dev.jsonl.gz", "rt") as lines:
        papers = [next(lines) for _ in range(12)]
    file = tmp_path / "trials.jsonl"
    file.write_text("".join(papers))
    assert through(tmp_path / "copy", file, "evidence-inference")["n"] >= 2
