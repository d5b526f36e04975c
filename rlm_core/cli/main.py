"""The command `rlm-forge`."""

from __future__ import annotations

import logging

import typer

from rlm_core.cli import ask, bench, doctor, judge, papers, params, plan, prompts, queries, rollouts, serve

app = typer.Typer(
    name="rlm-forge",
    help="Train Recursive Language Models that find evidence in papers, and ask them.",
    epilog="Your shell completes commands and options after: rlm-forge --install-completion (then open a new shell).",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)
app.command("ask")(ask.ask)
app.command("bench")(bench.bench)
app.command("doctor")(doctor.doctor)
app.command("plan")(plan.plan)
app.command("serve")(serve.serve)
app.add_typer(judge.app, name="judge")
app.add_typer(params.app, name="params")
app.add_typer(papers.app, name="papers")
app.add_typer(queries.app, name="queries")
app.add_typer(rollouts.app, name="rollouts")
app.add_typer(prompts.app, name="prompts")


@app.callback()
def main(verbose: bool = typer.Option(False, "--verbose", "-v", help="Show progress of slow steps.")) -> None:
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, format="%(message)s")
    for noisy in ("httpx", "httpcore", "pdfminer"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
