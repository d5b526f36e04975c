"""`rlm-forge plan`: memory and time of GRPO before anything is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from rlm_core.grpo.devices import NAMES, device_named
from rlm_core.params import Params, ParamsError, load_params


def plan(
    params: Annotated[Path, typer.Option(help="The params file.")] = Path("params.yaml"),
    model: Annotated[str | None, typer.Option(help="Another model than model.name: a folder or a hub id.")] = None,
    device: Annotated[str, typer.Option(help=f"What trains and serves: {', '.join(NAMES)}.")] = "cpu",
    processes: Annotated[int, typer.Option(min=1, help="Training processes, weights sharded over them.")] = 1,
) -> None:
    """Memory of trainer and server, tokens and seconds a step, from the params and the model's config alone.

    Examples:

      rlm-forge plan

      rlm-forge plan --params profiles/gpu.yaml --model path/to/Qwen3.5-4B --device h100 --processes 4
    """
    from rlm_core.grpo.plan import plan_step, shape_of
    from rlm_core.grpo.plan_text import render_plan
    from rlm_core.policies.models import ModelError

    try:
        settings = load_params(params)
        where = device_named(device)
        name = model or settings.model.name
        shape = shape_of(_config(name, settings))
        typer.echo(render_plan(plan_step(shape, settings, where, processes=processes), shape, settings, where, name))
    except (ParamsError, ModelError, ValueError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from error


def _config(name: str, params: Params) -> Any:
    """The config alone: of a hub id one small file is fetched; the project's own models are made once, as for a run."""
    from transformers import AutoConfig

    from rlm_core.policies.models import SMOLLM2, TINY, materialise_model

    source = str(materialise_model(name, dtype=params.model.dtype)) if name in (SMOLLM2, TINY) else name
    try:
        return AutoConfig.from_pretrained(source)
    except (OSError, ValueError) as error:
        raise ValueError(f"model {name!r}: its config cannot be read ({str(error).splitlines()[0]})") from error
