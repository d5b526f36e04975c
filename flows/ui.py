"""`make ui`: the MLflow server, the Prefect server and the served flows, until Ctrl-C."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

from flows.environment import MLFLOW_PORT, PREFECT_PORT, ROOT, announce_ui, use_local_prefect
from rlm_core.params import ParamsError, load_params
from rlm_core.processes import spawn_bound, stop_group

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
    api = f"http://127.0.0.1:{PREFECT_PORT}/api"
    os.environ["PREFECT_API_URL"] = api
    logs = ROOT / ".cache" / "ui"
    logs.mkdir(parents=True, exist_ok=True)
    servers: list[subprocess.Popen[bytes]] = []
    try:
        if store.startswith("sqlite"):
            mlflow = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", store]
            servers.append(start([*mlflow, "--port", str(MLFLOW_PORT), "--workers", "2"], logs / "mlflow.log"))
        prefect = [sys.executable, "-m", "prefect", "server", "start", "--port", str(PREFECT_PORT)]
        servers.append(start(prefect, logs / "prefect.log"))
        wait_for(f"{api}/health", servers[-1], logs / "prefect.log")
        if store.startswith("sqlite"):
            wait_for(f"http://127.0.0.1:{MLFLOW_PORT}/health", servers[0], logs / "mlflow.log")
            store = f"http://127.0.0.1:{MLFLOW_PORT}"
        announce_ui(api)
        print(
            f"\nMLflow   {store}\nPrefect  http://127.0.0.1:{PREFECT_PORT}  (deployments: pipeline/current and profiles)"
        )
        print("Ctrl-C stops both; a flow that runs is cancelled.\n", flush=True)
        serve_flows()
    except KeyboardInterrupt:
        pass
    finally:
        announce_ui(None)
        for server in servers:
            stop_group(server)
    return 0


def port_taken(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


def start(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    with open(log, "wb") as out:
        return spawn_bound(command, stdout=out, stderr=subprocess.STDOUT, cwd=str(ROOT))


def wait_for(url: str, server: subprocess.Popen[bytes], log: Path, seconds: float = 120.0) -> None:
    """Until `url` answers; raises with the end of the log if the server ends or stays silent."""
    import httpx

    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and server.poll() is None:
        try:
            if httpx.get(url, timeout=2.0).is_success:
                return
        except httpx.HTTPError:
            time.sleep(0.3)
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
    raise RuntimeError(f"{url} did not answer within {seconds:.0f} s; the end of {log}:\n{tail}")


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
