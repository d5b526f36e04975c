"""A folder that a flow works in: its lock, its params.yaml, and copies of it for runs beside each other."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import yaml

from flows.environment import ROOT
from rlm_core.files import write_text
from rlm_core.locks import file_lock
from rlm_core.params import Params, load_params


@contextlib.contextmanager
def exclusive(root: Path, holder: str, on_wait: Callable[[str], None]) -> Iterator[None]:
    """One flow at a time works in a folder: another would replace params.yaml under its stages."""
    with file_lock(root / ".cache" / "workspace.lock", holder=holder, on_wait=on_wait):
        yield


def write_params(params: Params, path: Path) -> None:
    """Replace a params file if its values differ; git keeps what was there."""
    if path.exists() and load_params(path) == params:
        return
    write_text(path, yaml.safe_dump(params.model_dump(mode="json"), sort_keys=False, allow_unicode=True))


def copy_tree(target: Path, source: Path = ROOT, *, keep: frozenset[str] = frozenset()) -> None:
    """A fresh copy of the files that git tracks or would track, as a DVC project of its own without git.

    What `target` held is removed, but for the names in `keep`.
    """
    target.mkdir(parents=True, exist_ok=True)
    for old in target.iterdir():
        if old.is_dir() and not old.is_symlink():
            if old.name not in keep:
                shutil.rmtree(old)
        else:
            old.unlink()
    for name in tracked_files(source):
        if (source / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, target / name)
    # the copy may lie inside the repository, but is none itself
    _dvc(["config", "core.no_scm", "true"], target)


def tracked_files(source: Path) -> list[str]:
    """What git tracks or would track; without git, all but what stages and tools make."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    if (source / ".git").exists():
        listing = subprocess.run(command, cwd=source, capture_output=True, check=True).stdout.decode()
        return [name for name in listing.split("\0") if name]
    skipped = {".venv", ".cache", ".smoke", ".prefect", "data", "models", "reports", "mlruns", "__pycache__", "tmp"}
    files = (file.relative_to(source) for file in source.rglob("*") if file.is_file())
    kept = [f for f in files if not skipped & set(f.parts) and not f.name.startswith("mlflow.db")]
    return [str(f) for f in kept if f.parts[:2] != (".dvc", "cache")]


def copy_workspace(target: Path, source: Path = ROOT) -> None:
    """A copy that shares the source's DVC cache: what was finished there is fetched, not run again.

    State that a resume takes up stays from an earlier copy at `target`.
    """
    copy_tree(target, source, keep=frozenset({".cache"}))
    _dvc(["cache", "dir", str((source / ".dvc" / "cache").resolve())], target)
    if (target / "dvc.lock").exists():
        _dvc(["checkout", "--allow-missing", "--quiet"], target)


def _dvc(arguments: list[str], root: Path) -> None:
    subprocess.run([sys.executable, "-m", "dvc", *arguments], cwd=root, check=True)
