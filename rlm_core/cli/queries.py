"""`rlm-forge queries`: what questions there are, read and mark some, bring one's own, take them elsewhere, plan their cost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table

from rlm_core.cli.console import SafeConsole
from rlm_core.files import read_json, read_jsonl, write_json, write_jsonl
from rlm_core.records import Query
from rlm_core.synthesis.formats import READERS, Format

if TYPE_CHECKING:
    from rlm_core.papers.records import Paper
    from rlm_core.synthesis.splits import Split

console = SafeConsole()
app = typer.Typer(help="Questions with their gold evidence.", no_args_is_help=True)

QUERIES, PARSED, OCR, PAPERS = (Path("data") / name for name in ("queries", "parsed", "ocr", "papers"))
REPORT = Path("reports/queries.json")
CACHE = Path(".cache/queries")
"""Where the stage keeps the endpoint's replies."""
OUT = Annotated[Path, typer.Option("--out", help="File or folder to write.")]


def _stop(message: str) -> typer.Exit:
    typer.echo(message, err=True)
    return typer.Exit(2)


def _read() -> dict[Split, list[Query]]:
    from rlm_core.synthesis.splits import SPLITS

    found: dict[Split, list[Query]] = {}
    for split in SPLITS:
        path = QUERIES / f"{split}.jsonl"
        if not path.exists():
            raise _stop(f"{path} is not there; make it: dvc repro queries")
        found[split] = [Query.from_dict(row) for row in read_jsonl(path)]
    return found


def _library(folder: Path) -> dict[str, Paper]:
    from rlm_core.papers import load_library

    return load_library(folder) if folder.is_dir() else {}


@app.command("report")
def report(
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures there as well.")] = None,
) -> None:
    """How many questions of which kind, tier, length and position; what splits share; what was rejected and why.

    Example: rlm-forge queries report --json reports/queries-inspected.json
    """
    from rlm_core.synthesis.inspection import report_of

    rejected = read_json(REPORT).get("rejected", {}) if REPORT.exists() else {}
    figures: dict[str, Any] = report_of(_read(), _library(PARSED), _library(OCR), rejected)
    table = Table("split", "kind", "tier", "questions", "papers", "passages each", "characters: least, median, most")
    for row in figures["counts"]:
        low, _, middle, _, high = row["evidence_chars"]
        cells = (row["questions"], row["papers"], f"{row['passages']:.1f}", f"{low}, {middle}, {high}")
        table.add_row(row["split"], row["kind"], row["tier"], *map(str, cells))
    console.print(table)
    for title, key in (
        ("Characters of a passage", "evidence_lengths"),
        ("Where in its paper it begins", "evidence_positions"),
    ):
        console.print(_bars(title, figures[key]))
    if figures["leaks"]:
        console.print(f"[red]{len(figures['leaks'])} leak(s) between splits[/]")
        leaks = Table("what", "splits", "one", "the other", "share")
        for leak in figures["leaks"]:
            ids = (escape(leak["first"]), escape(leak["second"]))
            leaks.add_row(leak["kind"], " and ".join(leak["splits"]), *ids, f"{leak['share']:.2f}")
        console.print(leaks)
    else:
        console.print("No leak between splits: no paper, near-duplicate paper, reworded question or repeated evidence.")
    if figures["rejected"]:
        console.print(_bars("Rejected, by reason", figures["rejected"]))
    if json_file:
        write_json(json_file, figures)


def _bars(title: str, counts: dict[str, int]) -> Table:
    table = Table("", "passages" if "Rejected" not in title else "drafts", "", title=title, title_justify="left")
    most = max([1, *counts.values()])
    for name, count in counts.items():
        table.add_row(escape(name), str(count), "█" * round(30 * count / most))
    return table


@app.command("show")
def show(
    count: Annotated[int, typer.Option(help="How many.")] = 5,
    split: Annotated[str, typer.Option(help="train, val or test")] = "train",
) -> None:
    """Questions with their gold evidence."""
    shown = [q for s, rows in _read().items() if s == split for q in rows][:count]
    for query in shown:
        lines = [f"[dim]{e.paper_id}, {_span(e.span)}[/]\n{escape(e.text)}" for e in query.evidence]
        subtitle = f"{query.id}  {query.kind}, {query.tier}"
        console.print(Panel("\n\n".join(lines), title=escape(query.question), subtitle=subtitle))


def _span(span: Any) -> str:
    return f"characters {span.start} to {span.end}, score {span.score:.2f}" if span else "not in the parsed text"


@app.command("review")
def review(
    count: Annotated[int, typer.Option(help="How many questions.", min=1)] = 30,
    seed: Annotated[int, typer.Option(help="Another seed draws others.")] = 42,
    split: Annotated[str, typer.Option(help="train, val, test or all")] = "all",
    port: Annotated[int, typer.Option(help="0 takes a free one.", min=0, max=65535)] = 0,
    summary_only: Annotated[
        bool, typer.Option("--summary", help="Print the figures of the marks so far and stop.")
    ] = False,
) -> None:
    """Read questions with their evidence marked on the page image, and say good or bad; marks are kept at once.

    Drawn by the seed, from every kind and tier. The page is served on 127.0.0.1 alone; stop with Ctrl+C. Marks go to
    queries.marks of params.yaml; `dvc repro queries` then leaves out what was marked bad.

    Example: rlm-forge queries review --count 30 --split test
    """
    from rlm_core.params import load_params
    from rlm_core.synthesis.review import ReviewServer, draw

    marks = load_params().queries.marks if Path("params.yaml").exists() else Path("questions/marks.jsonl")
    splits = _read()
    if split not in (*splits, "all"):
        raise _stop(f"no split '{split}'; there are train, val, test and all")
    every = [q for name, rows in splits.items() if split in (name, "all") for q in rows]
    if not summary_only:
        drawn = draw(every, count, seed)
        try:
            server = ReviewServer(
                drawn, clean=_library(OCR), parsed=_library(PARSED), pdfs=PAPERS, marks=marks, port=port
            )
        except OSError as error:
            raise _stop(f"port {port} cannot be used ({error.strerror}); --port 0 takes a free one") from error
        with server:
            typer.echo(f"{len(drawn)} questions at {server.url}  (marks: {marks}; stop with Ctrl+C)")
            try:
                server.serve_forever()
            except KeyboardInterrupt:
                typer.echo("")
    _print_marks(marks, every)


def _print_marks(path: Path, queries: list[Query]) -> None:
    from rlm_core.synthesis.marks import read_marks, summary

    table = Table("questions", "marked", "good", "share good", "95 % interval (Wilson)")
    for row in summary(read_marks(path).values(), queries):
        share = "-" if row["share_good"] is None else f"{row['share_good']:.2f}"
        low, high = row["ci95"]
        table.add_row(row["questions"], str(row["marked"]), str(row["good"]), share, f"{low:.2f} to {high:.2f}")
    console.print(table)


@app.command("plan")
def plan() -> None:
    """What the endpoint writer of params.yaml would ask and cost, before its first call; nothing is sent.

    The cost needs price_in_per_million and price_out_per_million of queries.endpoint.

    Example: rlm-forge queries plan
    """
    from rlm_core.params import ParamsError, load_params
    from rlm_core.synthesis.writing import plan_queries

    groups = Path("data/groups.jsonl")
    if not groups.exists():
        raise _stop(f"{groups} is not there; make it: dvc repro groups")
    try:
        params = load_params()
        figures = plan_queries(
            read_jsonl(groups), _library(OCR), _library(PARSED), params.queries, params.seed, cache_folder=CACHE
        )
    except (ParamsError, ValueError) as error:
        raise _stop(str(error)) from error
    typer.echo(figures.sentence())


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="The file: .json, .jsonl or .jsonl.gz.")],
    out: OUT,
    format: Annotated[Format, typer.Option("--format", help="Whose file it is.")] = "jsonl",
) -> None:
    """Other people's papers and questions, for this pipeline: OUT/papers/*.json and OUT/questions.jsonl.

    Formats: `jsonl` is one's own (docs/queries.md lists its fields), `qasper` QASPER's JSON, `evidence-inference` papers of
    Evidence Inference 2.0. Evidence that a paper does not hold is counted and left out.

    Example: rlm-forge queries import qasper-dev-v0.3.json --format qasper --out imported/qasper
    """
    from rlm_core.synthesis.formats.check import checked

    if not file.is_file():
        raise _stop(f"{file}: no such file")
    try:
        found = checked(READERS[format](file))
    except ValueError as error:
        raise _stop(str(error)) from error
    for paper in found.papers:
        write_json(out / "papers" / f"{paper.id}.json", paper.to_dict())
    rows = (q.model_dump(mode="json", exclude_defaults=True) for q in found.questions)
    number = write_jsonl(out / "questions.jsonl", rows)
    typer.echo(
        f"{len(found.papers)} papers, {number} questions, {sum(len(q.evidence) for q in found.questions)} passages"
    )
    for reason, n in found.rejected.most_common():
        typer.echo(f"left out: {n}, {reason}")
    papers = f"papers: source: texts, directory: {out / 'papers'}; " if found.papers else ""
    typer.echo(
        f"In params.yaml set {papers}queries: writer: import, questions: {out / 'questions.jsonl'}; then: dvc repro"
    )


@app.command("export")
def export(
    out: OUT,
    format: Annotated[str, typer.Option("--format", help="jsonl or qasper")] = "jsonl",
    split: Annotated[str, typer.Option(help="train, val, test or all")] = "all",
) -> None:
    """The questions with the clean text of their papers, in one file: one's own JSONL, or QASPER's JSON (one paper each).

    Example: rlm-forge queries export --format jsonl --out questions.jsonl
    """
    from rlm_core.synthesis.formats import own, qasper

    library = _library(OCR)
    rows = [(name, q) for name, queries in _read().items() if split in (name, "all") for q in queries]
    if missing := sorted({p for _, q in rows for p in q.paper_ids} - library.keys()):
        raise _stop(f"{OCR} lacks {', '.join(missing[:5])}; make it: dvc repro ocr")
    if format == "jsonl":
        write_jsonl(out, own.rows_of(rows, library))
        typer.echo(f"{out}: {len(rows)} questions")
    elif format == "qasper":
        write_json(out, qasper.rows_of(rows, library))
        kept = sum(len(q.paper_ids) == 1 for _, q in rows)
        typer.echo(f"{out}: {kept} questions; {len(rows) - kept} on several papers have no place in QASPER's schema")
    else:
        raise _stop(f"no format '{format}'; there are jsonl and qasper")
