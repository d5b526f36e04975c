"""dvc.yaml declares everything that shapes a stage's outputs: the code it imports, the params it reads, one name everywhere."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import yaml

from flows.pipeline import StageName, stage_range
from rlm_core.params import Params

ROOT = Path(__file__).resolve().parents[2]
STAGES = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
PLUMBING = {
    "tasks/common.py", "tasks/curves.py", "tasks/device.py", "tasks/faults.py", "tasks/__init__.py", "rlm_core/printable.py",
    "tasks/tracking.py", "tasks/traces.py", "tasks/outbox.py", "tasks/store.py", "tasks/registry.py", "tasks/system_metrics.py",
    "rlm_core/__init__.py", "rlm_core/params/__init__.py", "rlm_core/files.py", "rlm_core/progress.py", "rlm_core/processes.py",
    "rlm_core/policies/pace.py",
    "rlm_core/locks.py", "rlm_core/fanout/__init__.py", "rlm_core/fanout/cluster.py", "rlm_core/fanout/local.py",
}  # fmt: skip
"""Logging, files and process care: they bring results to their place and shape none. An edit there re-runs nothing."""
TRACKING = {"tasks/tracking.py", "tasks/traces.py", "tasks/store.py", "tasks/registry.py"}
UNDECLARED_PARAMS = {"mlflow", "parse"}
"""Where figures go, and how many processes parse: no output depends on them."""


def module_file(name: str) -> Path | None:
    path = ROOT / Path(*name.split("."))
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.exists():
            return candidate
    return None


def imports_of(file: Path) -> set[Path]:
    """Local modules that a file imports anywhere, inside functions too; `from package import name` may name a module."""
    found: set[Path] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            if name.split(".")[0] in ("rlm_core", "tasks") and (path := module_file(name)):
                found.add(path)
    return found


def reachable(start: Path) -> set[str]:
    seen: set[Path] = set()
    todo = [start]
    while todo:
        file = todo.pop()
        if file not in seen:
            seen.add(file)
            # a package's __init__ names its members for lazy import; only what is asked for counts. What logging uses
            # (records, to draw a trace) shapes nothing.
            if file.name != "__init__.py" and str(file.relative_to(ROOT)) not in TRACKING:
                todo += imports_of(file)
    return {str(f.relative_to(ROOT)) for f in seen}


@pytest.mark.parametrize("stage", STAGES)
def test_all_code_of_a_stage_is_declared(stage: str) -> None:
    deps = [d for d in STAGES[stage]["deps"] if isinstance(d, str)]
    missing = [
        f
        for f in sorted(reachable(ROOT / "tasks" / f"{stage}.py") - PLUMBING)
        if not any(f == d or f.startswith(f"{d}/") for d in deps)
    ]
    assert missing == []


@pytest.mark.parametrize("stage", STAGES)
def test_all_params_of_a_stage_are_declared(stage: str) -> None:
    """Sections that the stage's module names as `params.SECTION` (or `.params.SECTION`)."""
    source = (ROOT / "tasks" / f"{stage}.py").read_text()
    read = set(re.findall(r"\bparams\.([a-z_]+)", source)) & set(Params.model_fields)
    declared = {p.split(".")[0] for p in STAGES[stage].get("params", [])}
    assert read - declared - UNDECLARED_PARAMS == set()


def test_every_declared_param_exists() -> None:
    params = Params().model_dump()
    for stage in STAGES.values():
        for name in stage.get("params", []):
            value = params
            for part in name.split("."):
                assert part in value, name
                value = value[part]


def test_a_stage_has_one_name_everywhere() -> None:
    assert list(StageName.__args__) == list(STAGES)
    for stage, entry in STAGES.items():
        assert entry["cmd"] == f"exec python -m tasks.{stage}"
        assert (ROOT / "tasks" / f"{stage}.py").exists()
        assert (ROOT / "tests" / "tasks" / f"test_{stage}.py").exists()
        assert stage in Params.model_fields


def test_ranges_of_stages() -> None:
    assert stage_range("teach", "sft") == ["teach", "distill", "sft"]
    with pytest.raises(ValueError, match="'sft' comes after 'teach'"):
        stage_range("sft", "teach")
