"""`rlm-forge judge`: whether the judge may be trusted, before anything is trained or reported by it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from rlm_core.cli.console import SafeConsole
from rlm_core.files import read_jsonl, write_json, write_text
from rlm_core.params import EndpointParams, JudgeParams, ParamsError, load_params
from rlm_core.records import Query

app = typer.Typer(help="Check the judge.", no_args_is_help=True)
console = SafeConsole()
CACHE = Path(".cache/judge")


@app.callback()
def about() -> None:
    """Check the judge."""


@app.command()
def check(
    queries: Annotated[
        Path, typer.Option(help="Queries with gold evidence; the labelled answers are made of them.")
    ] = Path("data/queries/train.jsonl"),
    params_file: Annotated[Path, typer.Option("--params", help="Its section 'judge' names the judge.")] = Path(
        "params.yaml"
    ),
    url: Annotated[str | None, typer.Option(help="An endpoint to check instead of the params' judge.")] = None,
    name: Annotated[str | None, typer.Option(help="With --url: the model's name there.")] = None,
    count: Annotated[int, typer.Option(min=1, help="Queries used, 15 or 16 answers each.")] = 12,
    repeats: Annotated[int, typer.Option(min=1, help="Times that each answer is judged.")] = 2,
    seed: Annotated[int, typer.Option(help="Which queries are drawn.")] = 0,
    fresh: Annotated[bool, typer.Option("--fresh", help="Ask again, whatever was kept of an equal check.")] = False,
    out: Annotated[Path, typer.Option(help="The report; the plot goes beside it as .png.")] = Path(
        "reports/judge-check.json"
    ),
    html: Annotated[bool, typer.Option("--html", help="Also a page beside the report, as .html.")] = False,
) -> None:
    """Judge answers whose scores are known: agreement, flips, order, length, injections, failures. Exit 1 if it fails.

    Examples:

      rlm-forge judge check

      rlm-forge judge check --params profiles/gpu.yaml --count 24 --repeats 3

      rlm-forge judge check --url http://localhost:8100/v1 --name gpt-oss-120b
    """
    from rlm_core.rewards import JudgeOutOfReach
    from rlm_core.rewards.reliability import check_params
    from rlm_core.rewards.reliability.plot import save_calibration

    try:
        params = _judge_params(params_file, url, name)
        if not queries.exists():
            raise ValueError(f"{queries}: no such file; make it with: dvc repro queries")
        rows = [Query.from_dict(row) for row in read_jsonl(queries)]
        folder = None if fresh else CACHE
        report = check_params(params, rows, folder=folder, count=count, repeats=repeats, seed=seed)
    except (ParamsError, JudgeOutOfReach, ValueError, OSError) as error:
        console.print(f"[bold red]{escape(str(error))}[/]")
        raise typer.Exit(2) from None
    made = [out, out.with_suffix(".png")]
    write_json(out, report)
    save_calibration(report, made[1])
    if html:
        from rlm_core.evaluation.report.judge_page import render_judge_page

        made.append(out.with_suffix(".html"))
        write_text(made[-1], render_judge_page(report))
    show(report)
    console.print(f"[dim]{', '.join(map(str, made))}[/]")
    if not report["passed"]:
        raise typer.Exit(1)


def _judge_params(file: Path, url: str | None, name: str | None) -> JudgeParams:
    if url is None:
        return load_params(file).judge
    if name is None:
        raise ValueError("--url is an endpoint: name the model there with --name")
    return JudgeParams(kind="rubric", endpoint=EndpointParams(base_url=url, model=name))


def show(report: dict[str, Any]) -> None:
    """The kinds of answers as a table, then what decides."""
    title = (
        f"{report['judge']}: {report['cases']} answers of {report['queries']} queries, {report['repeats']} times each"
    )
    table = Table(title=title, title_justify="left")
    for column in ("answer", "n", "judged", "precision", "deserves", "recall", "deserves", "reward"):
        first = column == "answer"
        table.add_column(column, justify="left" if first else "right", no_wrap=first)
    for row in report["kinds"]:
        cells = (row["precision"], row["label_precision"], row["recall"], row["label_recall"])
        table.add_row(row["kind"], str(row["n"]), str(row["judged"]), *map(_one, cells), _two(row["reward"]))
    console.print(table)
    for name, row in report["agreement"].items():
        interval = row["kappa_ci95"]
        between = f" ({interval[0]:.2f} to {interval[1]:.2f})" if interval else ""
        within = "" if row["within_one"] is None else f", {row['within_one']:.0%} within one point"
        console.print(f"{name}: weighted kappa {_two(row['kappa'])}{between}{within}")
    flips, spoken, failures = report["flips"], report["injection"], report["failures"]
    console.print(f"asked again: {flips['any_share']:.0%} change, {flips['pass_share']:.0%} cross 0.5")
    console.print(
        f"reordered: reward changes by {_two(report['order']['mean_change'])}; padding costs "
        f"{_two(report['length']['recall_lost_to_padding'])} points of recall"
    )
    console.print(f"talked into 0.5 or more: {spoken['gave_in']} of {spoken['verdicts']} worthless answers")
    console.print(f"no verdict: {failures['failed']} of {failures['verdicts_asked']}; {_spent(report['cost'])}")
    for fault in report["faults"]:
        console.print(f"[red]fails: {escape(fault)}[/]")
    console.print("[green]passed[/]" if report["passed"] else "[bold red]not to be used as it is[/]")


def _spent(cost: dict[str, Any]) -> str:
    price = "cost unknown" if cost["cost"] is None else f"cost {cost['cost']:.4f}"
    tokens = f"{cost['prompt_tokens']} + {cost['completion_tokens']} tokens"
    return f"{cost['requests']} requests, {cost['retries']} of them tried again, {tokens}, {price}"


def _one(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _two(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
