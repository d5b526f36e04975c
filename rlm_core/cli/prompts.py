"""`rlm-forge prompts`: what a model will see, with its tokens."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer
from rich.markup import escape
from rich.panel import Panel

from rlm_core.cli.console import SafeConsole

console = SafeConsole()
app = typer.Typer(help="What a model will see.", no_args_is_help=True)


class Kind(StrEnum):
    SINGLE = "single"
    MULTI = "multi"


@app.command("show")
def show_prompts(
    kind: Annotated[Kind, typer.Option(help="One paper or several.")] = Kind.SINGLE,
    child: Annotated[bool, typer.Option("--child", help="What a child reads, not the root.")] = False,
) -> None:
    """The opening messages that params.yaml gives a node and its first cue, with their tokens for the policy's tokenizer.

    Examples:

      rlm-forge prompts show --kind multi

      rlm-forge prompts show --child
    """
    from rlm_core.params import load_params
    from rlm_core.policies import ChatRenderer, load_tokenizer, materialise_model
    from rlm_core.prompts import Allowance, Task, build_messages, cue, opening
    from rlm_core.rollouts import RolloutConfig

    params = load_params()
    config = RolloutConfig.from_params(params)
    paper = {"title": "A paper", "abstract": "Its abstract.", "text": "Its text."}
    context = {f"paper{n}": paper for n in range(1 if kind is Kind.SINGLE else 4)}
    allowance = Allowance(config.max_children, config.max_depth - child)
    task = Task("Which passage discusses X?", context, is_child=child)
    first = cue(0, config.max_turns)
    messages = build_messages(opening(task, config.style, allowance), [], first, cue_kept=config.cue_kept)
    for message in messages:
        console.print(Panel(escape(message.content), title=message.role))
    renderer = ChatRenderer(load_tokenizer(materialise_model(params.model.name, dtype=params.model.dtype)))
    typer.echo(f"{len(renderer.prompt_ids(messages))} tokens for {params.model.name}")
