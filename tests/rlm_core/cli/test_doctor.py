"""`rlm-forge doctor`: each check finds what is wrong and says what to do."""

from __future__ import annotations

import fcntl
import json
import socket
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "stubs"))
from openai_server import OpenAIStub

from rlm_core.cli.checks import machine, project, services
from rlm_core.cli.main import app
from rlm_core.params import Params, validate_params

runner = CliRunner()


def with_judge(url: str, model: str = "stub") -> Params:
    return validate_params({"judge": {"kind": "rubric", "endpoint": {"base_url": url, "model": model}}})


def test_processor_and_memory_are_read(tmp_path: Path) -> None:
    cpuinfo, meminfo = tmp_path / "cpuinfo", tmp_path / "meminfo"
    for flags, level in (("fpu sse2", "bad"), ("avx2", "note"), ("avx2 avx512f", "ok"), ("asimd", "ok")):
        cpuinfo.write_text(f"flags : {flags}\n")
        assert machine.processor(cpuinfo).level == level
    for total, free, level in ((8, 6, "bad"), (16, 2, "note"), (16, 12, "ok")):
        meminfo.write_text(f"MemTotal: {total * 2**20} kB\nMemAvailable: {free * 2**20} kB\n")
        assert machine.memory(meminfo).level == level
        assert machine.memory(meminfo).found == f"{total} GiB, {free} available"


def test_a_gpu_is_found_hidden_or_without_a_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine.gpu("2.13.0+cpu", tmp_path).found.startswith("none")
    (tmp_path / "nvidia0").touch()
    assert "CUDA_VISIBLE_DEVICES" in machine.gpu(None, tmp_path, {"CUDA_VISIBLE_DEVICES": "-1"}).found
    monkeypatch.setenv("PATH", str(tmp_path))
    assert machine.gpu(None, tmp_path, {}).level == "bad"
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho 'NVIDIA H200, 143771 MiB, 3 MiB'\n")
    smi.chmod(0o755)
    assert machine.gpu("2.14.0", tmp_path, {}).found == "NVIDIA H200, 143771 MiB, 3 MiB"
    assert machine.gpu("2.13.0+cpu", tmp_path, {}).remedy == "to use it: make setup ENV=gpu"


def test_installed_versions_are_compared_with_the_lock(tmp_path: Path) -> None:
    assert project.read_lock("# no\naiohttp==3.1\ntorch==2.13.0+cpu ; x\n") == {"aiohttp": "3.1", "torch": "2.13.0+cpu"}
    kind = "cpu" if "+cpu" in (project.installed("torch") or "") else "gpu"
    (tmp_path / "requirements").mkdir()
    lock = tmp_path / "requirements" / f"{kind}.txt"
    lock.write_text(f"typer=={project.installed('typer')}\n")
    assert project.lock(tmp_path).found == f"all 1 as in requirements/{kind}.txt"
    lock.write_text("typer==0.0.1\nno-such-package==1\n")
    finding = project.lock(tmp_path)
    assert (finding.level, finding.remedy) == ("bad", f"rm .venv/.lock-sha256; make setup ENV={kind}")
    assert "(lock: 0.0.1), no-such-package missing (lock: 1)" in finding.found
    assert project.lock(tmp_path / "requirements").level == "note"


def test_records_that_mlflow_has_not_got(tmp_path: Path) -> None:
    assert project.outboxes(tmp_path).level == "ok"
    (tmp_path / "abc").mkdir()
    with open(tmp_path / "abc" / "pending-1.jsonl", "wb") as file:
        file.write(b"x" * 2048)
        file.flush()
        fcntl.flock(file, fcntl.LOCK_EX)
        assert project.outboxes(tmp_path).level == "ok", "its run goes on"
    left = project.outboxes(tmp_path)
    assert (left.level, left.found) == ("note", f"1 ended run(s) left 2 KiB unsent in {tmp_path}")


def test_endpoints_of_the_params_are_asked() -> None:
    assert services.endpoints(Params())[0].found == "the params name none"
    with OpenAIStub.in_thread(api_key="right") as stub:

        def found(params: Params, key: str = "right") -> tuple[str, str]:
            (finding,) = services.endpoints(params, {"OPENAI_API_KEY": key})
            return finding.level, f"{finding.what}: {finding.found}: {finding.remedy}"

        assert found(with_judge(stub.url)) == ("ok", f"judge.endpoint: stub: {stub.url} answers, key present: ")
        level, told = found(with_judge(stub.url, "other"))
        assert level == "bad"
        assert "lists 1 models, not this one: stub" in told
    level, told = found(with_judge("https://models.invalid/v1"), key="")
    assert (level, "OPENAI_API_KEY is not set" in told) == ("bad", True)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    level, told = found(with_judge(f"http://127.0.0.1:{port}/v1"))
    assert level == "bad"
    assert "check judge.endpoint.base_url" in told


def test_several_model_servers_are_each_asked() -> None:
    with OpenAIStub.in_thread() as stub:
        urls = [stub.url, "http://127.0.0.1:9"]
        one, two = services.endpoints(validate_params({"serve": {"url": urls}}))
    assert (one.level, two.level) == ("ok", "bad")


def test_ports_are_free_ours_or_taken() -> None:
    with OpenAIStub.in_thread() as other, socket.create_server(("127.0.0.1", 0)) as gone:
        taken, free = other.url.split(":")[2].removesuffix("/v1"), gone.getsockname()[1]
        gone.close()
        prefect, mlflow = services.ports({"PREFECT_PORT": taken, "MLFLOW_PORT": str(free)})
    assert prefect.level == "note"
    assert f"make ui PREFECT_PORT={int(taken) + 10}" in prefect.remedy
    assert mlflow.found == "free"


def test_the_command_exits_1_for_what_must_be_mended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "params.yaml").write_text("grpo: {lr: -1}\n")
    shown = runner.invoke(app, ["doctor"])
    assert shown.exit_code == 1
    assert "rlm-forge params describe" in shown.output
    (tmp_path / "params.yaml").write_text("seed: 1\n")
    rows = json.loads(runner.invoke(app, ["doctor", "--json"]).output)
    assert {row["what"]: row["level"] for row in rows}["params.yaml"] == "ok"
    assert all(row["remedy"] for row in rows if row["level"] != "ok")
