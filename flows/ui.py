"""`make ui`: the MLflow server, the Prefect server and the served flows, until Ctrl-C."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

from flows.environment import MLFLOW_PORT, PREFECT_PORT, announce_ui, use_local_prefect
from flows.servers import ServerFailed, mlflow_server, port_taken, prefect_server
from rlm_core.params import ParamsError, load_params

DEPLOYMENT = "local"


def main() -> int:
    for name, variable, port in (("MLflow", "MLFLOW_PORT", MLFLOW_PORT), ("Prefect", "PREFECT_PORT", PREFECT_PORT)):
        if port_taken(port):
            print(
                f"{name}: port {port} is in use. Stop the program that holds it (ss -ltnp 'sport = :{port}'), "
                f"or choose another: make ui {variable}={port + 10}",
                file=sys.stderr,
            )
            return 2
    try:
        from tasks.tracking import tracking_uri

        store = tracking_uri(load_params())
    except ParamsError as error:
        print(error, file=sys.stderr)
        return 2
    use_local_prefect()
    try:
        with contextlib.suppress(KeyboardInterrupt):
            serve_all(store)
    except ServerFailed as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def serve_all(store: str) -> None:
    """Both servers and the flows, until Ctrl-C. `store`: of MLflow; one with an address has a server of its own."""
    with contextlib.ExitStack() as running:
        mlflow = running.enter_context(mlflow_server(store, MLFLOW_PORT)) if store.startswith("sqlite") else store
        api = running.enter_context(prefect_server(PREFECT_PORT))
        running.callback(announce_ui, None)
        announce_ui(api)
        print(f"\nMLflow   {mlflow}\nPrefect  http://127.0.0.1:{PREFECT_PORT}  (every flow as deployment `local`)")
        print("Ctrl-C stops both; a flow that runs is cancelled.\n", flush=True)
        serve_flows()


def served_flows() -> list[Any]:
    """Every flow that a person starts."""
    from flows.ablation import ablation
    from flows.pipeline import distill, evaluate, pipeline, synthesize, train
    from flows.sweep import sweep

    return [pipeline, synthesize, distill, train, evaluate, sweep, ablation]


def serve_flows() -> None:
    """Each as a deployment `FLOW/local`; its form offers the profiles and every value of the params."""
    from prefect import serve

    deployments = [flow.to_deployment(name=DEPLOYMENT) for flow in served_flows()]
    serve(*deployments, limit=4, pause_on_shutdown=False)


if __name__ == "__main__":
    sys.exit(main())
