"""`rlm-forge papers / queries`: look at what a stage made."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table

from rlm_core.cli.console import SafeConsole
from rlm_core.files import read_json

console = SafeConsole()
papers = typer.Typer(help="Papers: what was read, and what was left out.", no_args_is_help=True)


def _need(path: Path, stage: str) -> Path:
    if not path.exists():
        typer.echo(f"{path} is not there; make it: dvc repro {stage}", err=True)
        raise typer.Exit(2)
    return path


@papers.command("list")
def list_papers() -> None:
    """Every paper: pages as parsed and as read by OCR, and what was skipped and why."""
    from rlm_core.papers import load_library

    parsed = load_library(_need(Path("data/parsed"), "parse"))
    clean = load_library(Path("data/ocr")) if Path("data/ocr").is_dir() else {}
    table = Table("id", "title", "pages", "characters parsed", "characters by OCR")
    for paper in parsed.values():
        ocr = str(len(clean[paper.id].text)) if paper.id in clean else "-"
        table.add_row(paper.id, escape(paper.title), str(len(paper.pages)), str(len(paper.text)), ocr)
    console.print(table)
    report = Path("reports/papers.json")
    for row in read_json(report)["papers"] if report.exists() else []:
        if row["status"] == "skipped":
            console.print(f"[yellow]skipped: {escape(row['file'])}: {row['kind']}. {escape(row['remedy'])}[/]")


@papers.command("show")
def show_paper(
    paper_id: str, view: Annotated[str, typer.Option(help="parsed (what a model reads) or ocr")] = "parsed"
) -> None:
    """The text of one paper."""
    from rlm_core.papers import load_library

    library = load_library(_need(Path("data") / view, "parse" if view == "parsed" else "ocr"))
    if paper_id not in library:
        typer.echo(f"no paper '{paper_id}'; there are: {', '.join(library)}", err=True)
        raise typer.Exit(2)
    paper = library[paper_id]
    console.print(Panel(escape(paper.abstract or "(no abstract found)"), title=escape(paper.title)))
    for number, page in enumerate(paper.pages, 1):
        console.rule(f"page {number}")
        console.print(page, markup=False, highlight=False)
