"""`rlm-forge papers / queries / rollouts / prompts`: look at what a stage made, and at what a model will see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table

from rlm_core.files import read_json, read_jsonl
from rlm_core.records import Query, Rollout

console = Console()
papers = typer.Typer(help="Papers: what was read, and what was left out.", no_args_is_help=True)
queries = typer.Typer(help="Questions with their gold evidence.", no_args_is_help=True)
rollouts = typer.Typer(help="Rollout trees.", no_args_is_help=True)
prompts = typer.Typer(help="What a model will see.", no_args_is_help=True)

ROLLOUT_FILES = (Path("reports/rollouts.jsonl"), Path("data/teacher/rollouts.jsonl"))


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


def _read_queries() -> Iterator[tuple[str, Query]]:
    for split in ("train", "val", "test"):
        for row in read_jsonl(_need(Path(f"data/queries/{split}.jsonl"), "queries")):
            yield split, Query.from_dict(row)


@queries.command("report")
def report_queries() -> None:
    """Counts by split, kind and tier, and the length of the evidence."""
    rows = list(_read_queries())
    table = Table("split", "kind", "tier", "questions", "evidence, median characters")
    groups = Counter((split, q.kind, q.tier) for split, q in rows)
    for key in sorted(groups):
        lengths = sorted(sum(map(len, q.gold)) for split, q in rows if (split, q.kind, q.tier) == key)
        table.add_row(*key, str(groups[key]), str(lengths[len(lengths) // 2]))
    console.print(table)


@queries.command("show")
def show_queries(
    count: Annotated[int, typer.Option(help="How many.")] = 5,
    split: Annotated[str, typer.Option(help="train, val or test")] = "train",
) -> None:
    """Questions with their gold evidence."""
    shown = [q for s, q in _read_queries() if s == split][:count]
    for query in shown:
        lines = [f"[dim]{e.paper_id}, {_span(e.span)}[/]\n{escape(e.text)}" for e in query.evidence]
        console.print(
            Panel("\n\n".join(lines), title=escape(query.question), subtitle=f"{query.id}  {query.kind}, {query.tier}")
        )


def _span(span: Any) -> str:
    return f"characters {span.start} to {span.end}, score {span.score:.2f}" if span else "not in the parsed text"


def _read_trees(file: Path | None) -> Iterator[Rollout]:
    path = file or next((f for f in ROLLOUT_FILES if f.exists()), ROLLOUT_FILES[-1])
    for row in read_jsonl(_need(path, "teach"), allow_cut_tail=True):
        yield Rollout.from_dict(row.get("rollout", row))


FILE = Annotated[
    Path | None, typer.Argument(help="A .jsonl of rollout trees; the newest of this project if none is named.")
]


@rollouts.command("list")
def list_rollouts(file: FILE = None) -> None:
    """One line a tree."""
    table = Table("id", "policy", "status", "turns", "children", "tokens", "question")
    for tree in _read_trees(file):
        usage = tree.usage
        figures = (str(usage.turns), str(usage.children), str(usage.completion_tokens))
        table.add_row(tree.id, tree.policy, str(tree.status), *figures, escape(tree.question))
    console.print(table)


@rollouts.command("show")
def show_rollout(
    file: FILE = None, rollout_id: Annotated[str | None, typer.Option("--id", help="The first if none.")] = None
) -> None:
    """One tree: turns, code, output, children, tokens, time."""
    from rlm_core.rollouts.show import render_tree

    for tree in _read_trees(file):
        if rollout_id in (None, tree.id):
            console.print(render_tree(tree))
            return
    typer.echo(f"no rollout '{rollout_id}' there; `rlm-forge rollouts list` names them", err=True)
    raise typer.Exit(2)


@prompts.command("show")
def show_prompts(kind: Annotated[str, typer.Option(help="single or multi")] = "single") -> None:
    """The opening messages that params.yaml gives a root, with their tokens for the policy's tokenizer."""
    from rlm_core.params import load_params
    from rlm_core.policies import ChatRenderer, Message, Role, load_tokenizer, materialise_model
    from rlm_core.prompts import Allowance, Task, opening
    from rlm_core.rollouts import RolloutConfig

    params = load_params()
    config = RolloutConfig.from_params(params)
    paper = {"title": "A paper", "abstract": "Its abstract.", "text": "Its text."}
    context = {f"paper{n}": paper for n in range(1 if kind == "single" else 4)}
    messages = opening(
        Task("Which passage discusses X?", context), config.style, Allowance(config.max_children, config.max_depth)
    )
    for role, content in messages:
        console.print(Panel(escape(content), title=role))
    renderer = ChatRenderer(load_tokenizer(materialise_model(params.model.name, dtype=params.model.dtype)))
    typer.echo(f"{len(renderer.prompt_ids([Message(cast(Role, role), content) for role, content in messages]))} tokens")
