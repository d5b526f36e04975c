"""`make ui`: the MLflow server, the Prefect server and the served flows, until Ctrl-C."""

from __future__ import annotations

import contextlib
import sys

from flows.environment import MLFLOW_PORT, PREFECT_PORT, ROOT, announce_ui, use_local_prefect
from flows.servers import mlflow_server, port_taken, prefect_server
from rlm_core.params import ParamsError, load_params

PROFILES = ("smoke", "cpu")


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
    with contextlib.ExitStack() as running, contextlib.suppress(KeyboardInterrupt):
        mlflow = running.enter_context(mlflow_server(store, MLFLOW_PORT)) if store.startswith("sqlite") else store
        api = running.enter_context(prefect_server(PREFECT_PORT))
        running.callback(announce_ui, None)
        announce_ui(api)
        print(
            f"\nMLflow   {mlflow}\nPrefect  http://127.0.0.1:{PREFECT_PORT}  (deployments: pipeline/current and profiles)"
        )
        print("Ctrl-C stops both; a flow that runs is cancelled.\n", flush=True)
        serve_flows()
    return 0


def serve_flows() -> None:
    """`pipeline` as deployments: `current` uses params.yaml, the others start with the form of a profile filled in."""
    from prefect import serve

    from flows.pipeline import pipeline

    deployments = [pipeline.to_deployment(name="current", description="Uses params.yaml as it is.")]
    for profile in PROFILES:
        params = load_params(ROOT / "profiles" / f"{profile}.yaml")
        deployments.append(
            pipeline.to_deployment(
                name=profile,
                parameters={"params": params.model_dump(mode="json")},
                description=f"profiles/{profile}.yaml, every value open to change; it is written to params.yaml.",
            )
        )
    serve(*deployments, limit=1, pause_on_shutdown=False)


if __name__ == "__main__":
    sys.exit(main())
