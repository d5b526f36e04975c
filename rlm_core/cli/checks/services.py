"""What is reached over the network: endpoints that the params name, and the ports of `make ui`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any

import aiohttp
from pydantic import BaseModel

from rlm_core.cli.checks.finding import Finding
from rlm_core.params import EndpointParams, Params
from rlm_core.policies.server_process import port_fault

SECONDS = 5.0
"""For one answer."""
LOCAL = ("127.0.0.1", "localhost", "::1")


def endpoints_of(section: BaseModel, prefix: str = "") -> Iterator[tuple[str, EndpointParams]]:
    """Every OpenAI-compatible endpoint in the params, with its key there."""
    for name in type(section).model_fields:
        yield from _endpoints_in(getattr(section, name), f"{prefix}{name}")


def _endpoints_in(value: Any, key: str) -> Iterator[tuple[str, EndpointParams]]:
    if isinstance(value, EndpointParams):
        yield key, value
    elif isinstance(value, BaseModel):
        yield from endpoints_of(value, f"{key}.")
    elif isinstance(value, tuple):
        for number, item in enumerate(value):
            yield from _endpoints_in(item, f"{key}[{number}]")


def endpoints(params: Params, variables: Mapping[str, str] = os.environ) -> list[Finding]:
    """Each address of the params is asked once, all at the same time."""

    async def ask() -> list[Finding]:
        urls = (params.serve.url,) if isinstance(params.serve.url, str) else params.serve.url or ()
        asked = [_endpoint(key, endpoint, variables) for key, endpoint in endpoints_of(params)]
        for url in urls:
            asked.append(_answers("serve.url", f"{_base(url)}/health", "start vLLM there, or correct the address"))
        if surya := params.ocr.surya_url:
            asked.append(_answers("ocr.surya_url", f"{surya.rstrip('/')}/models", "start the Surya server (docker/)"))
        if (mlflow := params.mlflow.tracking_uri or "").startswith("http"):
            remedy = "start the MLflow server; meanwhile records wait in .cache/mlflow"
            asked.append(_answers("mlflow.tracking_uri", f"{mlflow.rstrip('/')}/health", remedy))
        return list(await asyncio.gather(*asked))

    return asyncio.run(ask()) or [Finding("endpoints", "the params name none")]


def _base(url: str) -> str:
    return url.removesuffix("/").removesuffix("/v1")


async def _endpoint(key: str, endpoint: EndpointParams, variables: Mapping[str, str]) -> Finding:
    secret = variables.get(endpoint.api_key_env, "")
    what, url = f"{key}: {endpoint.model}", endpoint.base_url.rstrip("/")
    if not secret and urllib.parse.urlsplit(url).hostname not in LOCAL:
        remedy = f"export {endpoint.api_key_env}=KEY in the shell that starts the run"
        return Finding(what, f"{endpoint.api_key_env} is not set", "bad", remedy)
    try:
        status, reply = await fetch(f"{url}/models", {"Authorization": f"Bearer {secret}"} if secret else {})
    except ConnectionError as error:
        return Finding(what, str(error), "bad", f"check {key}.base_url, and that the server runs")
    if status in (401, 403):
        return Finding(what, f"{url}: the key is refused", "bad", f"check {endpoint.api_key_env}")
    names = _names(reply)
    if status != 200 or not names:
        return Finding(what, f"{url} answers, without a list of models", "note", "the first call will tell more")
    if endpoint.model not in names:
        found = f"{url} lists {len(names)} models, not this one: {', '.join(names[:3])}"
        return Finding(what, found, "bad", f"correct {key}.model")
    return Finding(what, f"{url} answers, " + ("key present" if secret else "no key needed here"))


def _names(reply: Any) -> list[str]:
    rows = reply.get("data") if isinstance(reply, dict) else None
    return [str(row["id"]) for row in rows or () if isinstance(row, dict) and "id" in row]


async def _answers(key: str, url: str, remedy: str) -> Finding:
    try:
        status, _ = await fetch(url)
    except ConnectionError as error:
        return Finding(key, str(error), "bad", remedy)
    if status >= 500:
        return Finding(key, f"{url}: HTTP {status}", "bad", remedy)
    return Finding(key, f"{url} answers")


async def fetch(url: str, headers: Mapping[str, str] | None = None) -> tuple[int, Any]:
    """Status and reply (parsed if JSON, else the text) of a GET; raises `ConnectionError` when nothing answers."""
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=SECONDS)) as session,
            session.get(url, headers=headers) as reply,
        ):
            text = await reply.text(errors="replace")
            status = reply.status
    except TimeoutError:
        raise ConnectionError(f"{url}: no answer within {SECONDS:g} s") from None
    except (aiohttp.ClientError, ValueError) as error:
        raise ConnectionError(f"{url}: {error}") from None
    try:
        return status, json.loads(text)
    except ValueError:
        return status, text


def ports(variables: Mapping[str, str] = os.environ) -> list[Finding]:
    """The ports of `make ui`: free, or held by the service itself."""
    services = (("Prefect", "PREFECT_PORT", 4200, "api/health", True), ("MLflow", "MLFLOW_PORT", 5000, "health", "OK"))
    return [
        _port(name, variable, int(variables.get(variable, port)), *sign) for name, variable, port, *sign in services
    ]


def _port(name: str, variable: str, port: int, path: str, healthy: Any) -> Finding:
    what, fault = f"port {port} for {name}", port_fault(port)
    if fault is None:
        return Finding(what, "free")
    with contextlib.suppress(ConnectionError):
        if asyncio.run(fetch(f"http://127.0.0.1:{port}/{path}")) == (200, healthy):
            return Finding(what, f"{name} answers there")
    remedy = f"make ui {variable}={port + 10}, or end that program (ss -ltnp 'sport = :{port}' names it)"
    return Finding(what, f"another program holds it ({fault})", "note", remedy)
