"""The container files, as far as they can be checked without building them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docker"
COMPOSE = FOLDER / "compose.yaml"


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())
    return data


def dockerfiles() -> list[Path]:
    return sorted(path for path in FOLDER.iterdir() if path.name.endswith("Dockerfile"))


def stages(dockerfile: Path) -> dict[str, list[str]]:
    """Instructions of each build stage, a stage's parents first."""
    found: dict[str, list[str]] = {}
    current = ""
    for line in re.sub(r"\\\n", " ", dockerfile.read_text()).splitlines():
        if match := re.match(r"FROM (\S+)(?: AS (\S+))?", line):
            current = match[2] or "final"
            found[current] = [*found.get(match[1], []), line]
        elif line and not line.startswith("#"):
            found[current].append(line)
    return found


def test_images_are_pinned(compose: dict[str, Any]) -> None:
    outside = [s["image"] for s in compose["services"].values() if "build" not in s]
    for dockerfile in dockerfiles():
        own = stages(dockerfile)
        outside += [m for m in re.findall(r"^FROM (\S+)", dockerfile.read_text(), re.M) if m not in own]
    assert len(outside) >= 3
    for image in outside:
        assert re.fullmatch(r"[\w./-]+:v?\d+\.\d+[\w.-]*", image), f"{image}: name a full version"


def test_every_stage_ends_as_an_ordinary_user() -> None:
    ends = {
        f"{dockerfile.name}:{name}": [line.split()[1] for line in lines if line.startswith("USER ")][-1:]
        for dockerfile in dockerfiles()
        for name, lines in stages(dockerfile).items()
    }
    assert {"Dockerfile:control", "Dockerfile:cpu", "Dockerfile:gpu", "surya.Dockerfile:final"} <= set(ends)
    assert [name for name, user in ends.items() if user in ([], ["root"], ["0"])] == []


def test_builds_name_files_stages_and_locks_that_exist(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        if build := service.get("build"):
            dockerfile = (FOLDER / build["context"] / build["dockerfile"]).resolve()
            assert build.get("target", "final") in stages(dockerfile)
    for lock in re.findall(r"RUN python scripts/setup_env\.py (\w+)", (FOLDER / "Dockerfile").read_text()):
        assert (ROOT / "requirements" / f"{lock}.txt").exists()


def test_copied_files_exist_and_secrets_do_not_reach_an_image() -> None:
    for sources in re.findall(r"^COPY --chown=\w+ (.+) \S+$", (FOLDER / "Dockerfile").read_text(), re.M):
        assert all((ROOT / source).exists() for source in sources.split())
    for ignore in (".dockerignore", ".gitignore"):
        assert "docker/.env" in {line.strip("/") for line in (ROOT / ignore).read_text().splitlines()}
    tracked = subprocess.run(["git", "ls-files", "docker"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "docker/.env\n" not in tracked.stdout


def test_no_password_stands_in_the_files(compose: dict[str, Any]) -> None:
    used = re.findall(r"PASSWORD: (\S+)|postgres:([^@\s]+)@", re.sub(r"\?[^}]*", "", COMPOSE.read_text()))
    assert used
    assert {first or second for first, second in used} == {"${POSTGRES_PASSWORD:}"}
    assert re.search(r"^POSTGRES_PASSWORD=$", (FOLDER / ".env.example").read_text(), re.M)


def test_servers_are_watched_and_waited_for(compose: dict[str, Any]) -> None:
    services = compose["services"]
    servers = {"postgres", "prefect", "mlflow", "surya"}
    assert {name for name, service in services.items() if "healthcheck" in service} == servers
    for name, service in services.items():
        waits = service.get("depends_on", {})
        assert all(wait == {"condition": "service_healthy"} for wait in waits.values()), name
        assert service["restart"] in ("unless-stopped", "on-failure")


def test_ports_are_open_to_this_machine_only(compose: dict[str, Any]) -> None:
    ports = [port for service in compose["services"].values() for port in service.get("ports", [])]
    assert sorted(ports) == ["127.0.0.1:4200:4200", "127.0.0.1:5000:5000"]


def test_volumes_are_declared(compose: dict[str, Any]) -> None:
    used = {
        volume.split(":")[0]
        for service in compose["services"].values()
        for volume in service.get("volumes", [])
        if not volume.startswith(".")
    }
    assert used == set(compose["volumes"])


def test_the_pools_of_the_deployments_have_workers(compose: dict[str, Any]) -> None:
    deployments = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]
    commands = [service["command"] for name, service in compose["services"].items() if name.startswith("worker-")]
    assert {d["work_pool"]["name"] for d in deployments} == {c[c.index("--pool") + 1] for c in commands}


@pytest.mark.skipif(
    shutil.which("docker-compose") is None, reason="docker-compose, which knows the schema, is not here"
)
@pytest.mark.parametrize("password", ["secret", ""])
def test_compose_itself_accepts_the_file(tmp_path: Path, password: str) -> None:
    text = re.sub(r"^name: .*\n", "", COMPOSE.read_text(), flags=re.M)  # newer than the schema of version 1
    copy = tmp_path / "compose.yaml"
    copy.write_text(text)
    command = ["docker-compose", "--project-directory", str(FOLDER), "-f", str(copy), "--profile", "gpu", "config"]
    result = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "POSTGRES_PASSWORD": password},
        check=False,
    )
    if password:
        assert result.returncode == 0, result.stderr
        assert "postgres:secret@postgres:5432/mlflow" in result.stdout
    else:
        assert result.returncode != 0
        assert "set it in docker/.env" in result.stderr
