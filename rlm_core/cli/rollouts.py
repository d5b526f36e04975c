"""`rlm-forge rollouts`: list stored rollout trees, draw one in the terminal or as a page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from rlm_core.cli.console import SafeConsole
from rlm_core.files import write_text
from rlm_core.records import Rollout

console = SafeConsole()
app = typer.Typer(help="Rollout trees.", no_args_is_help=True)

FILES = (Path("reports/rollouts.jsonl"), Path("data/teacher/rollouts.jsonl"))
FILE = Annotated[
    Path | None, typer.Argument(help="A .jsonl of rollout trees; the newest of this project if none is named.")
]
ID = Annotated[
    str | None, typer.Argument(metavar="[ID]", help="Of a tree or of a child in one; the first tree if none.")
]
ARM = Annotated[
    str | None, typer.Option(help="Of an evaluation: whose tree; without it, that of the first arm with this ID.")
]
HTML = Annotated[
    Path | None, typer.Option("--html", metavar="OUT", help="Write a self-contained page there instead of drawing.")
]


@app.command("list")
def list_rollouts(file: FILE = None) -> None:
    """One line a tree."""
    table = Table("arm", "id", "policy", "status", "turns", "children", "tokens", "question")
    for arm, tree in _read_trees(file):
        usage = tree.usage
        figures = (str(usage.turns), str(usage.children), str(usage.completion_tokens))
        table.add_row(
            escape(arm or "-"), escape(tree.id), escape(tree.policy), str(tree.status), *figures, escape(tree.question)
        )
    console.print(table)


@app.command("show")
def show_rollout(file: FILE = None, rollout_id: ID = None, html: HTML = None, arm: ARM = None) -> None:
    """One tree: turns, code, output, children, tokens, time.

    Examples:

      rlm-forge rollouts show data/teacher/rollouts.jsonl q12.0

      rlm-forge rollouts show data/teacher/rollouts.jsonl q12.0 --html tree.html

      rlm-forge rollouts show reports/rollouts.jsonl --arm grpo
    """
    found = _find(file, rollout_id, arm)
    if found is None:
        wanted = f"rollout '{rollout_id}'" if rollout_id else "rollout"
        typer.echo(
            f"no {wanted}{f' of arm {arm!r}' if arm else ''} there; `rlm-forge rollouts list` names them", err=True
        )
        raise typer.Exit(2)
    if html is None:
        from rlm_core.rollouts.show import render_tree

        console.print(render_tree(found))
        return
    from rlm_core.rollouts.page import tree_page

    write_text(html, tree_page(found))
    typer.echo(f"{html}: {found.id}, {sum(1 for _ in found.walk())} nodes")


@app.command("pairs")
def show_pairs(
    file: Annotated[Path, typer.Argument(help="Where the evaluation left them.")] = FILES[0],
    before: Annotated[str, typer.Option(help="Arm shown first.")] = "sft",
    after: Annotated[str, typer.Option(help="Arm shown second.")] = "grpo",
    count: Annotated[int, typer.Option(min=1, help="Questions.")] = 5,
) -> None:
    """The same questions before and after training, as Markdown: gains, losses and ordinary ones in turn.

    rlm-forge rollouts pairs > pairs.md

    rlm-forge rollouts pairs --before base --after sft --count 10 > pairs.md
    """
    from rlm_core.evaluation.pairs import example_pairs, pairs_markdown
    from rlm_core.files import read_jsonl

    if not file.exists():
        typer.echo(f"{file} is not there; make it: dvc repro evaluate", err=True)
        raise typer.Exit(2)
    try:
        pairs = example_pairs(list(read_jsonl(file)), before, after, count)
    except (ValueError, KeyError, TypeError) as error:
        typer.echo(f"{file}: {error}", err=True)
        raise typer.Exit(2) from None
    typer.echo(pairs_markdown(pairs), nl=False)


def _find(file: Path | None, rollout_id: str | None, arm: str | None) -> Rollout | None:
    for of_arm, tree in _read_trees(file):
        if arm is not None and arm != of_arm:
            continue
        if rollout_id is None:
            return tree
        if rollout_id == tree.id or rollout_id.startswith(f"{tree.id}."):
            for node in tree.walk():
                if node.id == rollout_id:
                    return node
    return None


def _read_trees(file: Path | None) -> Iterator[tuple[str, Rollout]]:
    """Each tree after its arm, which is empty outside an evaluation: there every arm answers the same questions."""
    from rlm_core.files import read_jsonl

    path = file or next((f for f in FILES if f.exists()), FILES[-1])
    if not path.exists():
        typer.echo(f"{path} is not there; make it: dvc repro teach", err=True)
        raise typer.Exit(2)
    try:
        for row in read_jsonl(path, allow_cut_tail=True):
            yield row.get("arm", ""), Rollout.from_dict(row.get("rollout", row))
    except (ValueError, KeyError, TypeError) as error:
        typer.echo(f"{path}: not a file of rollout trees: {error}", err=True)
        raise typer.Exit(2) from None
