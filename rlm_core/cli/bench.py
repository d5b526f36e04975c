"""`rlm-forge bench`: a model on a benchmark, scored with intervals; killed, it goes on where it was."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from rlm_core.cli.console import SafeConsole
from rlm_core.cli.models import choose_model, model_identity, open_policy
from rlm_core.files import content_key, write_json
from rlm_core.params import Params, ParamsError, load_params
from rlm_core.policies import PolicyError

if TYPE_CHECKING:
    from rlm_core.evaluation.benchmarks import BenchmarkItem

console = SafeConsole()
CACHE = Path(".cache/bench")


def bench(
    name: Annotated[
        str,
        typer.Argument(
            help="evidence, evidence-inference, oolong-pairs, mrcr; with a --file of yours: oolong, longbench-pro, "
            "browsecomp-plus, longcot-mini."
        ),
    ],
    model: Annotated[
        str | None, typer.Option(help="A model folder; an OpenAI-compatible URL; or 'expert'. Default: models/grpo.")
    ] = None,
    model_name: Annotated[str | None, typer.Option("--name", help="With a URL: the model's name there.")] = None,
    api_key_env: Annotated[str, typer.Option(help="With a URL: the variable that holds the key.")] = "OPENAI_API_KEY",
    file: Annotated[Path | None, typer.Option(help="Data of the benchmark, see docs/benchmarks.md.")] = None,
    size: Annotated[int, typer.Option(min=1, help="Tokens of an item's context, about.")] = 32_768,
    only: Annotated[list[str] | None, typer.Option(help="KEY=VALUE: only items like that, e.g. needles=8.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Items at most, drawn by the seed.")] = None,
    samples: Annotated[int, typer.Option(min=1, help="Rollouts an item.")] = 1,
    temperature: Annotated[float, typer.Option(min=0, help="0 is greedy.")] = 0.0,
    hint: Annotated[
        str, typer.Option(help="Put after every question; 'default' is the decomposition hint of longcot-mini.")
    ] = "",
    concurrency: Annotated[int, typer.Option(min=1, help="Rollouts at once.")] = 16,
    seed: Annotated[int, typer.Option(help="Of generated data, of --limit and of sampling.")] = 0,
    params_file: Annotated[Path, typer.Option("--params", help="Prompts and limits come from this file.")] = Path(
        "params.yaml"
    ),
    out: Annotated[Path | None, typer.Option(help="Default: reports/bench/NAME-SIZE.json.")] = None,
) -> None:
    """Run a benchmark and print its score with a 95 % interval.

    Examples:

      rlm-forge bench evidence --model models/grpo

      rlm-forge bench mrcr --size 65536 --only needles=2 --model http://localhost:8000/v1 --name Qwen3-8B

      rlm-forge bench oolong-pairs --size 131072 --params profiles/gpu.yaml

      rlm-forge bench longcot-mini --file math/easy.json --hint default
    """
    try:
        params = load_params(params_file) if params_file.exists() else Params()
        chosen = choose_model(model)
        items = load_items(name, file, size, seed, only or [], limit)
        options: dict[str, Any] = {
            "samples": samples,
            "temperature": temperature,
            "concurrency": concurrency,
            "seed": seed,
        }
        report = asyncio.run(_run(name, items, chosen, model_name, api_key_env, params, _hint(hint), **options))
    except (ParamsError, PolicyError, ValueError, OSError) as error:
        console.print(f"[bold red]{escape(str(error))}[/]")
        raise typer.Exit(2) from None
    report = {"benchmark": name, "size": size, "seed": seed, "only": only or [], **report}
    target = out or Path("reports/bench") / f"{name}-{size}.json"
    write_json(target, report)
    show(report)
    console.print(f"[dim]{target}[/]")
    if report["score_mean"] is None:
        raise typer.Exit(1)


def load_items(
    name: str, file: Path | None, size: int, seed: int, only: list[str], limit: int | None
) -> list[BenchmarkItem]:
    from rlm_core.evaluation.benchmarks import load_benchmark
    from rlm_core.evaluation.benchmarks.run import select

    wanted = {}
    for pair in only:
        key, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"--only {pair}: expected KEY=VALUE, e.g. needles=8")
        wanted[key] = value
    return select(load_benchmark(name, file, size, seed), only=wanted, limit=limit, seed=seed)


def _hint(hint: str) -> str:
    from rlm_core.evaluation.benchmarks.longcot import HINT

    return HINT if hint == "default" else hint


async def _run(
    name: str,
    items: list[BenchmarkItem],
    model: str,
    model_name: str | None,
    api_key_env: str,
    params: Params,
    hint: str,
    *,
    samples: int,
    temperature: float,
    concurrency: int,
    seed: int,
) -> dict[str, Any]:
    from rlm_core.evaluation.benchmarks.run import run_items, summarise
    from rlm_core.rollouts import RolloutConfig, RolloutStore

    identity = model_identity(model, model_name)
    config = RolloutConfig.from_params(params, temperature=temperature, seed=seed)
    store = RolloutStore(CACHE / f"{name}-{content_key(identity)}.jsonl")
    async with open_policy(model, model_name, api_key_env, params) as policy:
        rollouts = await run_items(
            items, policy, config, store, identity=identity, samples=samples, concurrency=concurrency, hint=hint
        )
    settings = {"model": model, "name": model_name, "samples": samples, "hint": hint, "rollout": config.shape}
    return settings | summarise(items, rollouts, seed=seed)


def show(report: dict[str, Any]) -> None:
    table = Table(title=f"{report['benchmark']}: {report['model']}", title_justify="left")
    for column in ("", "n", "score", "95 % interval"):
        table.add_column(column, justify="left" if column == "" else "right")
    rows = [("all", report), *((f"{part} {v}", row) for part, by in report["by"].items() for v, row in by.items())]
    for label, row in rows:
        interval = "-" if row["score_ci95"] is None else f"{row['score_ci95'][0]:.3f} to {row['score_ci95'][1]:.3f}"
        mean = "-" if row["score_mean"] is None else f"{row['score_mean']:.3f}"
        table.add_row(label, str(row["n"]), mean, interval)
    console.print(table)
    if report["failed_rollouts"]:
        console.print(
            f"[yellow]{report['failed_rollouts']} rollouts failed and have no score; run again to retry them[/]"
        )
    if report["score_mean"] is not None:
        console.print(
            f"{report['prompt_tokens_mean']:,.0f} + {report['completion_tokens_mean']:,.0f} tokens, "
            f"{report['turns_mean']:.1f} turns, {report['children_mean']:.1f} children, "
            f"{report['seconds_mean']:.1f} s a rollout"
        )
    if report["n"] < 50:
        console.print(f"[yellow]{report['n']} items are few: read the interval, not the mean[/]")
