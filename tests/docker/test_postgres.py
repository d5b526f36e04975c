"""Prefect and MLflow on a real PostgreSQL, started with the very commands of docker/compose.yaml."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
import yaml

from flows.servers import free_port
from rlm_core.processes import spawn_bound, stop_group

ROOT = Path(__file__).resolve().parents[2]
BINARIES = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), None)
USER = "postgres"
PASSWORD = "secret"

pytestmark = [
    pytest.mark.proof,
    pytest.mark.skipif(
        BINARIES is None, reason="PostgreSQL is not installed here (Debian: apt-get install postgresql)"
    ),
]


def binary(name: str) -> str:
    assert BINARIES is not None
    return str(BINARIES / name)


@dataclass
class Postgres:
    """A cluster of its own, run by an ordinary user: PostgreSQL refuses root."""

    folder: Path
    port: int = field(default_factory=free_port)
    server: subprocess.Popen[bytes] | None = None

    def run(self, program: str, *arguments: str) -> None:
        subprocess.run([*self._as_user(), binary(program), *arguments], check=True, capture_output=True)

    def create(self) -> None:
        self.folder.mkdir()
        if os.getuid() == 0:
            shutil.chown(self.folder, USER, USER)
        secret = self.folder.parent / "password"
        secret.write_text(PASSWORD)
        self.run("initdb", "-D", str(self.folder / "data"), "-U", USER, "-A", "scram-sha-256", f"--pwfile={secret}")

    def start(self) -> None:
        program = [binary("postgres"), "-D", str(self.folder / "data"), "-p", str(self.port)]
        self.server = spawn_bound(
            [*self._as_user(), *program, "-k", str(self.folder)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until(lambda: self.sql("SELECT 1") == "1", 30)

    def sql(self, statement: str, database: str = "postgres") -> str:
        address = f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{self.port}/{database}"
        command = [binary("psql"), "-tAX", "-v", "ON_ERROR_STOP=1", "-c", statement, address]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def crash(self) -> None:
        """Every process of the cluster ends at once, without a checkpoint: the next start recovers from its log."""
        self.run("pg_ctl", "-D", str(self.folder / "data"), "-m", "immediate", "-w", "stop")
        assert self.server is not None
        stop_group(self.server)

    def _as_user(self) -> list[str]:
        return ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--"] if os.getuid() == 0 else []


def until(true: object, seconds: float) -> None:
    """Wait until the call returns true; its failures count as not yet."""
    assert callable(true)
    deadline = time.monotonic() + seconds
    while True:
        with contextlib.suppress(httpx.HTTPError, subprocess.CalledProcessError):
            if true():
                return
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds} s")
        time.sleep(0.3)


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix="pg"))  # pytest's folders are closed to other users
    folder.chmod(0o755)
    server = Postgres(folder / "cluster")
    server.create()
    server.start()
    try:
        for statement in (ROOT / "docker" / "postgres" / "databases.sql").read_text().splitlines():
            if not statement.startswith("--"):
                server.sql(statement)
        yield server
    finally:
        server.crash()
        shutil.rmtree(folder)


@contextlib.contextmanager
def service(name: str, postgres: Postgres, tmp_path: Path) -> Iterator[str]:
    """One server of the compose file, on loopback; yields its address."""
    spec = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text())["services"][name]
    port = free_port()

    def local(text: str) -> str:
        text = text.replace("${POSTGRES_PASSWORD:?set it in docker/.env}", PASSWORD)
        text = text.replace("@postgres:5432", f"@127.0.0.1:{postgres.port}").replace("0.0.0.0", "127.0.0.1")
        text = text.replace("=/artifacts", f"={tmp_path / 'artifacts'}")
        return text.replace("${MLFLOW_ALLOWED_HOSTS:-localhost:5000,", f"127.0.0.1:{port},").removesuffix("}")

    variables = {key: local(value) for key, value in spec.get("environment", {}).items()}
    command = [sys.executable, "-m", *map(local, spec["command"]), "--port", str(port)]
    log = tmp_path / f"{name}.log"
    with open(log, "wb") as out:
        server = spawn_bound(
            command,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=str(tmp_path),
            env={**os.environ, "PREFECT_HOME": str(tmp_path / "prefect"), "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
            | variables,
        )
    address = f"http://127.0.0.1:{port}"
    path = {"prefect": "/api/health", "mlflow": "/health"}[name]
    try:
        until(lambda: server.poll() is None and httpx.get(address + path, timeout=2).is_success, 120)
        yield address
    except TimeoutError as error:
        raise AssertionError(f"{name} did not come up:\n{log.read_text()[-3000:]}") from error
    finally:
        stop_group(server)


def test_mlflow_keeps_every_value_of_several_writers_and_outlives_its_database(
    postgres: Postgres, tmp_path: Path
) -> None:
    from mlflow import MlflowClient

    with service("mlflow", postgres, tmp_path) as address:
        client = MlflowClient(address)
        experiment = client.create_experiment("postgres")
        run = client.create_run(experiment).info.run_id

        def write(name: str) -> None:
            for step in range(50):
                client.log_metric(run, name, step / 50, step=step)

        names = [f"m{i}" for i in range(4)]
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(write, names))
        assert [len(client.get_metric_history(run, name)) for name in names] == [50] * 4
        assert postgres.sql("SELECT count(*) FROM metrics", "mlflow") == "200"

        report = tmp_path / "report.html"
        report.write_text("<p>report</p>")
        client.log_artifact(run, str(report))
        assert (tmp_path / "artifacts").is_dir()
        assert [file.path for file in client.list_artifacts(run)] == ["report.html"]

        postgres.crash()
        postgres.start()
        client.log_metric(run, "after", 1.0)
        assert client.get_run(run).data.metrics["after"] == 1.0


def test_a_host_that_is_not_named_is_refused(postgres: Postgres, tmp_path: Path) -> None:
    with service("mlflow", postgres, tmp_path) as address:
        answer = httpx.get(
            f"{address}/api/2.0/mlflow/experiments/get?experiment_id=0", headers={"Host": "evil.example"}
        )
        assert answer.status_code == 403


def test_prefect_runs_a_flow_and_outlives_its_database(postgres: Postgres, tmp_path: Path) -> None:
    script = tmp_path / "small.py"
    script.write_text("from prefect import flow\n@flow\ndef small():\n    return 7\nassert small() == 7\n")
    with service("prefect", postgres, tmp_path) as address:
        variables = {**os.environ, "PREFECT_API_URL": f"{address}/api", "PREFECT_HOME": str(tmp_path / "client")}
        run = [sys.executable, str(script)]
        subprocess.run(run, env=variables, check=True, capture_output=True, timeout=120)
        postgres.crash()
        postgres.start()
        subprocess.run(run, env=variables, check=True, capture_output=True, timeout=120)
    assert postgres.sql("SELECT count(*) FROM flow_run WHERE state_type = 'COMPLETED'", "prefect") == "2"
