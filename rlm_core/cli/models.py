"""The model that a command runs: a folder, an address, or the scripted expert."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from rlm_core.cli.console import SafeConsole
from rlm_core.params import Params
from rlm_core.policies import Policy

console = SafeConsole()


def choose_model(model: str | None) -> str:
    """`model`, or the most trained one of this folder; raises `ValueError` when there is none."""
    if model is not None:
        return model
    for folder in ("models/grpo", "models/sft"):
        if Path(folder).is_dir():
            return folder
    raise ValueError(
        "no trained model here (models/grpo): run `make run`, or name a folder, a URL or 'expert' with --model"
    )


@contextlib.asynccontextmanager
async def open_policy(model: str, name: str | None, api_key_env: str, params: Params) -> AsyncIterator[Policy]:
    """The scripted expert, an endpoint, or a vLLM server of our own over a model folder."""
    from rlm_core.policies import ChatRenderer, ExpertPolicy, OpenAIPolicy, VllmPolicy, VllmServer, load_tokenizer

    if model == "expert":
        yield ExpertPolicy()
    elif model.startswith(("http://", "https://")):
        if name is None:
            raise ValueError("--model is a URL: name the model there with --name")
        endpoint = OpenAIPolicy(base_url=model, model=name, api_key_env=api_key_env)
        try:
            yield endpoint
        finally:
            await endpoint.aclose()
    else:
        with console.status(f"starting a vLLM server on {model}"):
            server = VllmServer.from_params(params.serve, model, dtype=params.model.dtype, eager=True)
            await server.__aenter__()
        try:
            async with VllmPolicy(server, ChatRenderer(load_tokenizer(model))) as policy:
                yield policy
        finally:
            await server.__aexit__(None, None, None)


def model_identity(model: str, name: str | None) -> Any:
    """What tells models apart, for the keys of stored rollouts: a folder's weights, an address with a name."""
    from rlm_core.evaluation.arms import weights_digest
    from rlm_core.policies.expert import VERSION

    if model == "expert":
        return {"policy": "expert", "version": VERSION}
    if model.startswith(("http://", "https://")):
        return {"base_url": model, "model": name}
    if not Path(model).is_dir():
        raise ValueError(f"{model}: no such model folder, and neither a URL nor 'expert'")
    return {"weights": weights_digest(Path(model))}
