"""`rlm-forge serve`: the trained model over a folder of papers, as an OpenAI-compatible endpoint."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from rlm_core.cli.ask import read_papers
from rlm_core.cli.console import SafeConsole
from rlm_core.cli.models import choose_model, open_policy
from rlm_core.params import Params, ParamsError, load_params
from rlm_core.policies import PolicyError

if TYPE_CHECKING:
    from rlm_core.papers import Paper

console = SafeConsole()


def serve(
    papers: Annotated[Path, typer.Option(help="A folder of PDFs, or one PDF.")],
    model: Annotated[
        str | None,
        typer.Option(help="A model folder; an OpenAI-compatible URL; or 'expert'. Default: models/grpo."),
    ] = None,
    name: Annotated[str | None, typer.Option(help="With a URL: the model's name there.")] = None,
    api_key_env: Annotated[str, typer.Option(help="With a URL: the variable that holds its key.")] = "OPENAI_API_KEY",
    host: Annotated[str, typer.Option(help="Where to listen; other machines reach 0.0.0.0.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8001,
    served_name: Annotated[str, typer.Option(help="What clients call the model.")] = "rlm",
    client_key_env: Annotated[
        str | None, typer.Option(help="A variable that holds a key which clients must send.")
    ] = None,
    concurrency: Annotated[
        int, typer.Option(min=1, help="Questions answered at once; as many as 8 times that wait.")
    ] = 8,
    params_file: Annotated[Path, typer.Option("--params", help="Prompts and limits come from this file.")] = Path(
        "params.yaml"
    ),
) -> None:
    """Serve the model over your papers: POST /v1/chat/completions, GET /v1/models, GET /v1/papers.

    The last user message is the question. The reply is the evidence with paper and page, as text and in the field `rlm`;
    with "stream": true the trajectory comes first, as reasoning_content.

    Examples:

      rlm-forge serve --papers library

      rlm-forge serve --papers ~/papers --model models/sft --port 9000

      curl localhost:8001/v1/chat/completions -H 'Content-Type: application/json' \\
        -d '{"messages": [{"role": "user", "content": "Which passage reports the recall?"}]}'
    """
    try:
        params = load_params(params_file) if params_file.exists() else Params()
        key = None if client_key_env is None else os.environ.get(client_key_env)
        if client_key_env is not None and not key:
            raise ValueError(f"{client_key_env} is empty or not set; put the clients' key there")
        if host not in ("127.0.0.1", "localhost", "::1") and key is None:
            console.print("[yellow]everybody who reaches this machine can ask: consider --client-key-env[/]")
        listener = listen(host, port)
        library = read_papers(papers)
        asyncio.run(
            _serve(listener, library, choose_model(model), name, api_key_env, params, served_name, key, concurrency)
        )
    except (ParamsError, PolicyError, ValueError, OSError) as error:
        console.print(f"[bold red]{escape(str(error))}[/]")
        raise typer.Exit(2) from None


def listen(host: str, port: int) -> socket.socket:
    """A bound socket; raises `ValueError` with what to do when the port is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ValueError(f"cannot listen on {host}:{port} ({error.strerror}); --port 0 takes a free port") from None
    return listener


async def _serve(
    listener: socket.socket,
    library: Mapping[str, Paper],
    model: str,
    name: str | None,
    api_key_env: str,
    params: Params,
    served_name: str,
    key: str | None,
    concurrency: int,
) -> None:
    import uvicorn

    from rlm_core.serving import RlmService, make_app

    class Server(uvicorn.Server):
        """Signals are handled here: uvicorn raises them again at its end, which would interrupt the model server's stop."""

        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    async with open_policy(model, name, api_key_env, params) as policy:
        service = RlmService(
            policy, library, params, model=served_name, concurrency=concurrency, waiting=8 * concurrency
        )
        app = make_app(service, api_key=key)
        server = Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=5))

        def end() -> None:
            server.should_exit = True

        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, end)
        host, port = listener.getsockname()[:2]
        console.print(
            f"{model} over {len(library)} papers: http://{host}:{port}/v1 as '{served_name}'; stop with Ctrl+C"
        )
        await server.serve(sockets=[listener])
