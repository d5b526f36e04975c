"""DVC itself is asked which stages an edit makes stale: every param, and a file of every code dependency."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from dvc.repo import Repo

from rlm_core.params import Params
from tasks.tracking import flatten

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
STAGES: dict[str, Any] = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]

ROLLS_OUT = {"teach", "grpo", "evaluate"}
JUDGES = {"teach", "distill", "grpo", "evaluate"}
READERS: dict[str, set[str]] = {
    "seed": {"groups", "queries", "teach", "distill", "sft", "grpo", "evaluate"},
    "papers": {"papers"},
    "papers.source": {"papers", "report"},
    "parse": set(),
    "ocr": set(),
    "ocr.engine": {"ocr", "report"},
    "ocr.dpi": {"ocr", "report"},
    "ocr.surya_url": {"ocr"},
    "groups": {"groups"},
    "queries": {"queries"},
    "queries.writer": {"queries", "report"},
    "model": {"sft", "grpo", "evaluate"},
    "model.name": {"teach", "distill", "sft", "grpo", "evaluate", "report"},
    "model.dtype": {"distill", "sft", "grpo", "evaluate"},
    "serve": {"grpo", "evaluate"},
    "repl": ROLLS_OUT,
    "rollout": ROLLS_OUT,
    "judge": JUDGES,
    "teach": {"teach", "report"},
    "teach.policy": {"teach", "evaluate", "report"},
    "teach.endpoint": {"teach", "evaluate", "report"},
    "teach.noise": {"teach", "evaluate", "report"},
    "distill": {"distill"},
    "sft": {"sft"},
    "grpo": {"grpo"},
    "evaluate": {"evaluate"},
    "report": {"report"},
    "mlflow": set(),
    "ablation": {"ablation"} & set(STAGES),
}
"""The stages that an edit of a param makes stale by itself; the longest name counts. What follows from their outputs
re-runs if the outputs change. `workers` and `mlflow` shape no output."""


def readers(leaf: str) -> set[str]:
    parts = leaf.split(".")
    return next(READERS[key] for n in range(len(parts), 0, -1) if (key := ".".join(parts[:n])) in READERS)


def declared(leaf: str) -> set[str]:
    """Stages of dvc.yaml that list the param or a section that holds it."""
    return {
        stage
        for stage, entry in STAGES.items()
        if any(leaf == name or leaf.startswith(f"{name}.") for name in entry.get("params", []))
    }


@pytest.mark.parametrize("leaf", sorted(flatten(Params().model_dump(mode="json"))))
def test_a_param_is_declared_by_the_stages_that_it_shapes_and_no_others(leaf: str) -> None:
    assert declared(leaf) == readers(leaf)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree that DVC takes for finished: every output is there, and recorded in dvc.lock."""
    spec = importlib.util.spec_from_file_location("smoke", ROOT / "scripts" / "smoke.py")
    assert spec and spec.loader
    smoke = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(smoke)
    folder = tmp_path_factory.mktemp("finished") / "project"
    smoke.smoke_copy(folder)
    for entry in STAGES.values():
        for kind in ("outs", "metrics", "plots"):
            for out in entry.get(kind, []):
                path = folder / (next(iter(out)) if isinstance(out, dict) else out)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        with Repo(str(folder)) as repo:
            repo.commit(force=True)
    return folder


@pytest.fixture(autouse=True)
def inside(finished: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(finished)
    yield


def stale(folder: Path) -> set[str]:
    with Repo(str(folder)) as repo:
        return set(repo.status())


def test_nothing_is_stale_when_nothing_changed(finished: Path) -> None:
    assert stale(finished) == set()


@pytest.mark.parametrize(
    ("leaf", "value"),
    [
        ("papers.max_papers", 5),
        ("ocr.dpi", 222),
        ("ocr.workers", 3),
        ("parse.workers", 3),
        ("grpo.lr", 0.5),
        ("model.name", "elsewhere"),
        ("mlflow.experiment", "other"),
        ("serve.max_num_seqs", 3),
    ],
)
def test_dvc_finds_the_stages_that_a_param_makes_stale(finished: Path, leaf: str, value: object) -> None:
    file = finished / "params.yaml"
    before = file.read_text()
    data = yaml.safe_load(before)
    section, key = leaf.split(".")
    assert data[section][key] != value
    data[section][key] = value
    file.write_text(yaml.safe_dump(data))
    try:
        assert stale(finished) == readers(leaf)
    finally:
        file.write_text(before)


def code_dependencies() -> list[str]:
    """Files and folders of code that dvc.yaml lists, each once."""
    listed = {dep for entry in STAGES.values() for dep in entry["deps"] if dep.startswith(("tasks/", "rlm_core/"))}
    return sorted(listed)


def test_an_edit_of_any_code_dependency_makes_its_stages_stale(finished: Path) -> None:
    """All listed code is edited, a file of each entry; one look at DVC tells which stage sees which entry changed."""
    edited = {}
    for dep in code_dependencies():
        path = finished / dep
        file = path if path.is_file() else next(f for f in sorted(path.rglob("*.py")) if f.name != "__init__.py")
        edited.setdefault(file, file.read_text())
        file.write_text(edited[file] + "\n# edited\n")
    try:
        with Repo(str(finished)) as repo:
            status = repo.status()
        for stage, entry in STAGES.items():
            changed = {dep for item in status[stage] for dep in item.get("changed deps", {})}
            assert changed == {dep for dep in entry["deps"] if dep in code_dependencies()}, stage
    finally:
        for file, text in edited.items():
            file.write_text(text)
