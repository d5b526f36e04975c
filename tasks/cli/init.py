"""`rlm-forge init`: a workspace for one's own papers: a clone of the project with params of its own."""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path
from typing import Annotated

import typer
import yaml

from rlm_core.files import write_text
from rlm_core.params import ParamsError, load_params
from tasks.common import StageError

ROOT = Path(__file__).resolve().parents[2]
UPSTREAM = "upstream"
PROFILES = ", ".join(sorted(path.stem for path in (ROOT / "profiles").glob("*.yaml")))


def init(
    folder: Annotated[Path, typer.Argument(help="The new workspace; must not exist, or be empty.")],
    papers: Annotated[
        Path | None, typer.Option(help="Your folder of PDFs, read where it lies. Default: library/ in the workspace.")
    ] = None,
    profile: Annotated[str, typer.Option(help=f"Which profile params.yaml begins as: {PROFILES}.")] = "cpu",
) -> None:
    """Make a workspace for your own papers: the project's files in a git repository of its own, sharing this environment.

    Your params, papers, outputs and MLflow runs stay apart from others'; the project's later changes come with
    `git pull upstream`.

    Examples:

      rlm-forge init ~/my-papers

      rlm-forge init ~/reviews --papers ~/Zotero/storage --profile gpu
    """
    try:
        make_workspace(folder, papers=papers, profile=profile)
    except (StageError, ParamsError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    typer.echo(next_steps(folder, papers))


def make_workspace(folder: Path, *, papers: Path | None = None, profile: str = "cpu", source: Path = ROOT) -> None:
    """Clone `source` into `folder`, with params for papers of one's own and `source`'s environment. Raises `StageError`."""
    if not (source / ".git").exists():
        raise StageError(
            f"{source} is no git checkout, so it cannot be cloned; clone the project, `make setup`, try again"
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise StageError(f"{folder} is there and not empty; name another folder")
    if papers is not None and not papers.is_dir():
        raise StageError(f"{papers}: no such folder of papers")
    origin = source / "profiles" / f"{profile}.yaml"
    if not origin.exists():
        names = sorted(path.stem for path in origin.parent.glob("*.yaml"))
        raise StageError(f"no profile '{profile}'; there are {', '.join(names)}")
    _git("clone", "--quiet", "--no-hardlinks", "--origin", UPSTREAM, str(source), str(folder))
    (folder / "dvc.lock").unlink(missing_ok=True)  # of the papers that the project was tried on
    if (source / ".venv").exists():
        (folder / ".venv").symlink_to((source / ".venv").resolve())
        with open(folder / ".git" / "info" / "exclude", "a", encoding="utf-8") as file:
            file.write(".venv\n")
    place = "library" if papers is None else str(papers.resolve())
    write_text(folder / "params.yaml", own_params(origin.read_text(encoding="utf-8"), directory=place))
    load_params(folder / "params.yaml")


def own_params(text: str, *, directory: str) -> str:
    """A profile's text with papers from a folder; its heading stays."""
    heading = "".join(itertools.takewhile(lambda line: line.startswith("#"), text.splitlines(keepends=True)))
    values = yaml.safe_load(text) or {}
    values["papers"] = {**values.get("papers", {}), "source": "directory", "directory": directory}
    return heading + yaml.safe_dump(values, sort_keys=False, allow_unicode=True)


def next_steps(folder: Path, papers: Path | None) -> str:
    steps = [
        f"cd {folder}",
        *([] if papers else ["put your PDFs into library/ (folders inside it are read too)"]),
        "look at params.yaml: `rlm-forge params describe` explains every value, `rlm-forge params check` checks them",
        "rlm-forge doctor",
        "make run, or start flows from a browser: make ui",
        "rlm-forge status; rlm-forge ask 'Which passage ...?' --papers DIR",
        "git commit -am 'My papers' keeps your params; git pull upstream brings the project's changes",
    ]
    return "\n".join([f"{folder} is ready. Next:", *(f"  {n}. {step}" for n, step in enumerate(steps, 1))])


def _git(*arguments: str) -> None:
    result = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
    if result.returncode:
        raise StageError(f"git {arguments[0]} failed: {result.stderr.strip()}")
