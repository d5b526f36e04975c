"""The command `rlm-forge`."""

from __future__ import annotations

import logging

import typer

from rlm_core.cli import ask, bench, doctor, judge, papers, params, plan, prompts, queries, rollouts, serve
from rlm_core.cli.helptext import tidy_help

SET_UP = "Set up and plan"
LOOK = "Look at what was made"
USE = "Use a model"

app = typer.Typer(
    name="rlm-forge",
    help="Train Recursive Language Models that find evidence in papers, and ask them.\n\n\n"
    "`make run` makes everything, papers to judged model; `dvc repro` what a change touches. These commands prepare that, "
    "look at what it made, and use it.",
    epilog="Your shell completes commands and options after: rlm-forge --install-completion (then open a new shell).",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("doctor", rich_help_panel=SET_UP)(doctor.doctor)
app.add_typer(params.app, name="params", rich_help_panel=SET_UP)
app.command("plan", rich_help_panel=SET_UP)(plan.plan)
app.add_typer(judge.app, name="judge", rich_help_panel=SET_UP)
app.add_typer(prompts.app, name="prompts", rich_help_panel=SET_UP)
app.add_typer(papers.app, name="papers", rich_help_panel=LOOK)
app.add_typer(queries.app, name="queries", rich_help_panel=LOOK)
app.add_typer(rollouts.app, name="rollouts", rich_help_panel=LOOK)
app.command("ask", rich_help_panel=USE)(ask.ask)
app.command("serve", rich_help_panel=USE)(serve.serve)
app.command("bench", rich_help_panel=USE)(bench.bench)


@app.callback()
def main(verbose: bool = typer.Option(False, "--verbose", "-v", help="Show progress of slow steps.")) -> None:
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, format="%(message)s")
    for noisy in ("httpx", "httpcore", "pdfminer"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


tidy_help(app)
