"""Copies of this tree with the smoke profile, real or with stages that take no time, and what still runs inside them."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(Path(__file__).parent))  # for `serving`, which the tests of this folder share


def copy_to(folder: Path) -> Path:
    spec = importlib.util.spec_from_file_location("smoke", ROOT / "scripts" / "smoke.py")
    assert spec and spec.loader
    smoke = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(smoke)
    smoke.smoke_copy(folder)
    return folder


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh copy of the tree; its params.yaml is the smoke profile."""
    return copy_to(tmp_path_factory.mktemp("copy") / "project")


def with_toy_stages(folder: Path) -> Path:
    """Replace every stage of a copy by one of the same name, params, inputs from other stages and outputs that ends at once."""
    data = yaml.safe_load((folder / "dvc.yaml").read_text())
    made: set[str] = set()
    for name, entry in data["stages"].items():
        outs = [
            next(iter(o)) if isinstance(o, dict) else o for k in ("outs", "metrics", "plots") for o in entry.get(k, [])
        ]
        kept = {"deps": [d for d in entry["deps"] if d in made], "params": entry.get("params", []), "outs": outs}
        made |= set(outs)
        meta = {"meta": entry["meta"]} if "meta" in entry else {}
        data["stages"][name] = {"cmd": f"exec python toy_stage.py {name} {' '.join(outs)}", **meta, **kept}
    (folder / "dvc.yaml").write_text(yaml.safe_dump(data, sort_keys=False))
    shutil.copy2(ROOT / "tests" / "flows" / "toy_stage.py", folder)
    return folder


@pytest.fixture(scope="module")
def toy_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree whose stages take no time."""
    return with_toy_stages(copy_to(tmp_path_factory.mktemp("toy") / "project"))


@pytest.fixture(scope="session")
def running_in() -> Callable[[Path], list[str]]:
    """The command lines of the processes whose working folder lies in a folder."""

    def look(folder: Path) -> list[str]:
        found = []
        for process in psutil.process_iter(["cwd", "cmdline"]):
            if process.pid != os.getpid() and (process.info["cwd"] or "").startswith(str(folder)):
                found.append(" ".join(process.info["cmdline"] or []))
        return found

    return look
