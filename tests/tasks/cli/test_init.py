"""`rlm-forge init` and the installed command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from rlm_core.params import load_params
from tasks.cli.init import ROOT, own_params
from tasks.cli.main import app

runner = CliRunner()
needs_git = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="this checkout has no .git to clone")


def run(folder: Path, *command: str) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@needs_git
def test_a_workspace_is_a_project_of_its_own(tmp_path: Path) -> None:
    folder, pdfs = tmp_path / "mine", tmp_path / "pdfs"
    pdfs.mkdir()
    made = runner.invoke(app, ["init", str(folder), "--papers", str(pdfs), "--profile", "smoke"])
    assert made.exit_code == 0, made.output
    assert "make run" in made.output
    params = load_params(folder / "params.yaml")
    assert (params.papers.source, params.papers.directory) == ("directory", pdfs)
    assert "params.yaml: valid" in run(folder, sys.executable, "-m", "tasks.cli", "params", "check")
    assert "papers" in yaml.safe_load(run(folder, sys.executable, "-m", "dvc", "status", "--json"))
    assert run(folder, "git", "rev-parse", "--show-toplevel").strip() == str(folder.resolve())
    assert run(folder, "git", "remote").strip() == "upstream"
    assert run(folder, "git", "status", "--short").split() == ["M", "params.yaml"]
    again = runner.invoke(app, ["init", str(folder)])
    assert again.exit_code == 2
    assert "not empty; name another folder" in again.output


@needs_git
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--papers", "nowhere"], "nowhere: no such folder"),
        (["--profile", "magic"], "no profile 'magic'; there are cpu"),
    ],
)
def test_mistakes_leave_nothing_behind(tmp_path: Path, arguments: list[str], told: str) -> None:
    result = runner.invoke(app, ["init", str(tmp_path / "mine"), *arguments])
    assert result.exit_code == 2
    assert told in result.output
    assert not (tmp_path / "mine").exists()


def test_params_of_ones_own_keep_heading_and_values() -> None:
    text = own_params("# a\n# b\nseed: 3\npapers: {source: sample, max_papers: 5}\n", directory="library")
    assert text.startswith("# a\n# b\nseed: 3\n")
    assert yaml.safe_load(text)["papers"] == {"source": "directory", "max_papers": 5, "directory": "library"}


def test_the_command_starts_without_heavy_imports() -> None:
    heavy = ("mlflow", "dvc", "torch", "transformers", "prefect", "starlette", "numpy", "aiohttp")
    code = f"import sys; import tasks.cli.main; print([m for m in {heavy} if m in sys.modules])"
    assert run(ROOT, sys.executable, "-c", code).strip() == "[]"


def test_the_shell_completes_commands(tmp_path: Path) -> None:
    command = Path(sys.executable).with_name("rlm-forge")
    script = run(tmp_path, "bash", "-c", f"{command} --show-completion; true")
    assert "_RLM_FORGE_COMPLETE=complete_bash" in script
    asked = {"_RLM_FORGE_COMPLETE": "complete_bash", "COMP_WORDS": "rlm-forge comp", "COMP_CWORD": "1"}
    done = subprocess.run([command], env={**os.environ, **asked}, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["compare"]
    assert "--install-completion" in runner.invoke(app, ["--help"]).output
