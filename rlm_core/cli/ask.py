"""`rlm-forge ask`: one RLM run over a folder of PDFs, shown live, evidence printed with paper and page."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.panel import Panel

from rlm_core.cli.console import SafeConsole
from rlm_core.cli.models import choose_model, open_policy
from rlm_core.files import content_key, read_kept, sha256_file, write_json
from rlm_core.params import Params, ParamsError, load_params
from rlm_core.policies import PolicyError
from rlm_core.progress import Progress
from rlm_core.records import Kind, Query, Rollout, Status

if TYPE_CHECKING:
    from rlm_core.papers import Paper

console = SafeConsole()
CACHE = Path(".cache/ask")


def ask(
    question: Annotated[str, typer.Argument(help="What to find evidence for.")],
    papers: Annotated[Path, typer.Option(help="A folder of PDFs, or one PDF.")],
    model: Annotated[
        str | None,
        typer.Option(
            help="A model folder; an OpenAI-compatible URL; or 'expert', the scripted policy. Default: models/grpo."
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="With a URL: the model's name there.")] = None,
    api_key_env: Annotated[str, typer.Option(help="With a URL: the variable that holds the key.")] = "OPENAI_API_KEY",
    params_file: Annotated[Path, typer.Option("--params", help="Prompts and limits come from this file.")] = Path(
        "params.yaml"
    ),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the evidence, not the trajectory.")] = False,
) -> None:
    """Ask a question about papers; the model explores them in a sandboxed REPL and answers with evidence.

    Each passage of the answer comes with its paper and page, or is marked as being in none of the papers. Texts of PDFs that
    were read before are kept in .cache/ask.

    Examples:

      rlm-forge ask "Which passages report a loss of soil carbon?" --papers data/papers

      rlm-forge ask "Which passage reports the recall?" --papers paper.pdf --model expert

      rlm-forge ask "..." --papers ~/papers --model http://localhost:8000/v1 --name Qwen3-8B
    """
    try:
        params = load_params(params_file) if params_file.exists() else Params()
        library = read_papers(papers)
        rollout = asyncio.run(_run(question, library, choose_model(model), name, api_key_env, params, quiet))
    except (ParamsError, PolicyError, ValueError, OSError) as error:
        console.print(f"[bold red]{escape(str(error))}[/]")
        raise typer.Exit(2) from None
    show_answer(rollout, library)
    if rollout.status is Status.FAILED:
        raise typer.Exit(1)


def read_papers(path: Path) -> dict[str, Paper]:
    """Read the PDFs of a folder, or one PDF, column by column; kept by content. Broken ones are named and left out."""
    from rlm_core.papers import Paper, PdfProblem, parse_pdf
    from rlm_core.papers.problems import check_file
    from rlm_core.papers.sources import pdf_files, unique_ids

    if not path.exists():
        raise ValueError(f"{path}: no such folder or PDF")
    files = pdf_files(path) if path.is_dir() else [path]
    if not files:
        raise ValueError(f"{path}: no PDFs in this folder; name the folder that holds your papers")
    library: dict[str, Paper] = {}
    with Progress("parse", total=len(files), unit="papers") as progress:
        for id, file in zip(unique_ids(file.stem for file in files), files, strict=True):
            try:
                check_file(file)
                kept = CACHE / f"{content_key(sha256_file(file), id)}.json"
                paper = read_kept(kept, Paper.from_dict) or parse_pdf(file, mode="columns", id=id)
            except (PdfProblem, PermissionError) as problem:
                console.print(f"[yellow]left out: {escape(str(problem))}[/]")
            else:
                if not kept.exists():
                    write_json(kept, paper.to_dict())
                library[paper.id] = paper
            progress.advance()
    if not library:
        raise ValueError(f"{path}: none of its {len(files)} PDFs can be read; the reasons stand above")
    return library


async def _run(
    question: str,
    library: Mapping[str, Paper],
    model: str,
    name: str | None,
    api_key_env: str,
    params: Params,
    quiet: bool,
) -> Rollout:
    from rlm_core.papers import attach_context
    from rlm_core.rollouts import RolloutConfig, run_rollout
    from rlm_core.rollouts.show import print_events

    kind: Kind = "single" if len(library) == 1 else "multi"
    query = attach_context(Query(id="ask", question=question, kind=kind, paper_ids=tuple(library)), library)
    config = RolloutConfig.from_params(params, temperature=0.0).for_papers(len(library))
    async with open_policy(model, name, api_key_env, params) as policy:
        return await run_rollout(query, policy, config, observer=None if quiet else print_events(console))


def show_answer(rollout: Rollout, library: Mapping[str, Paper]) -> None:
    """The passages with paper and page, and what the tree cost."""
    from rlm_core.serving.citations import cite

    usage = rollout.usage
    cost = (
        f"{usage.turns} turns, {usage.children} children, {usage.completion_tokens} tokens, {usage.wall_seconds:.1f} s"
    )
    cited = cite(rollout, library)
    if rollout.status is Status.FAILED:
        console.print(Panel(escape(rollout.failure), title="failed, no answer", border_style="red"))
    elif not cited:
        console.print(Panel(f"status: {rollout.status}", title="no evidence found", border_style="yellow"))
    for number, passage in enumerate(cited, 1):
        if passage.paper_id is not None:
            where, below, colour = f"{passage.paper_id}, page {passage.page}", passage.title or "", "green"
        else:
            where, colour = "in none of the papers", "red"
            below = "the model made this up, or changed it beyond recognition"
        head = f"{number}. {escape(where)}"
        console.print(Panel(escape(passage.text), title=head, subtitle=escape(below), border_style=colour))
    console.print(f"[dim]{rollout.policy}: {cost}[/]")
