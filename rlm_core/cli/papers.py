"""`rlm-forge papers`: what the stages papers, parse, ocr and groups made."""

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
app = typer.Typer(help="Papers: what was read, what was left out, who is grouped with whom.", no_args_is_help=True)


def _need(path: Path, stage: str) -> Path:
    if not path.exists():
        typer.echo(f"{path} is not there; make it: dvc repro {stage}", err=True)
        raise typer.Exit(2)
    return path


@app.command("list")
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


@app.command("show")
def show_paper(
    paper_id: Annotated[str, typer.Argument(help="As `papers list` names it.")],
    view: Annotated[str, typer.Option(help="parsed (what a model reads) or ocr")] = "parsed",
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


@app.command("groups")
def show_groups() -> None:
    """Who is grouped with whom, each paper's nearest neighbour, near-duplicates, and figures that say how good it is.

    A neighbour in another group is marked: the group was full, or the two are less alike than groups.min_similarity.
    """
    report = read_json(_need(Path("reports/groups.json"), "groups"))
    table = Table("group", "key words", "paper", "nearest", "similarity")
    for group in report["groups"]:
        for number, row in enumerate(group["papers"]):
            inside = row["nearest"] in group["paper_ids"]
            nearest = "-" if row["nearest"] is None else escape(row["nearest"]) + ("" if inside else " (other group)")
            head = (group["id"], escape(", ".join(group["key_words"]))) if number == 0 else ("", "")
            table.add_row(*head, escape(f"{row['id']}: {row['title']}"), nearest, f"{row['similarity']:.2f}")
        table.add_section()
    console.print(table)
    for pair in report["near_duplicates"]:
        names = " and ".join(escape(name) for name in pair["papers"])
        console.print(f"[yellow]nearly the same text: {names} share {pair['shared']:.0%}[/]")
    for name, value in report["figures"].items():
        console.print(f"{name.replace('_', ' ')}: {'-' if value is None else round(value, 3)}")
