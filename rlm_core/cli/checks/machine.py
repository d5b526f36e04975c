"""Python, processor, memory, disk, tools, GPU, the sandbox."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from rlm_core.cli.checks.finding import Finding

GIB = 2**30
ENOUGH_MEMORY_GIB = 14
"""Trainer and vLLM server of the cpu profile together, measured: docs/results.md."""
ENOUGH_DISK_GIB = 5


def python() -> Finding:
    ok = (3, 11) <= sys.version_info[:2] <= (3, 13)
    found = f"{sys.version.split()[0]} in {sys.prefix}"
    return Finding("Python", found) if ok else Finding("Python", found, "bad", "make setup PYTHON=python3.11")


def processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> Finding:
    """Cores that this process may use, and the vector instructions that vLLM and torch are fast with."""
    words = set(cpuinfo.read_text(encoding="utf-8").split()) if cpuinfo.exists() else set()
    wide = [flag for flag in ("avx2", "avx512f", "avx512_bf16", "amx_bf16", "asimd", "bf16") if flag in words]
    found = f"{len(os.sched_getaffinity(0))} cores, {', '.join(wide) or 'no AVX2'}"
    if not {"avx2", "asimd"} & set(wide):
        return Finding(
            "processor", found, "bad", "vLLM's CPU build needs AVX2 (or ARM's asimd): use a newer machine or a GPU"
        )
    if not {"avx512f", "asimd"} & set(wide):
        return Finding("processor", found, "note", "works; AVX-512 is about twice as fast")
    return Finding("processor", found)


def memory(meminfo: Path = Path("/proc/meminfo")) -> Finding:
    rows = {
        row[0].rstrip(":"): int(row[1]) * 1024 for line in meminfo.read_text().splitlines() if (row := line.split())
    }
    total, free = rows["MemTotal"] / GIB, rows["MemAvailable"] / GIB
    found = f"{total:.0f} GiB, {free:.0f} available"
    if total < ENOUGH_MEMORY_GIB:
        return Finding(
            "memory", found, "bad", f"the cpu profile needs {ENOUGH_MEMORY_GIB} GiB; use profiles/smoke.yaml"
        )
    if free < ENOUGH_MEMORY_GIB / 2:
        return Finding("memory", found, "note", "other programs hold most of it: end some before a training run")
    return Finding("memory", found)


def disk(folder: Path = Path()) -> Finding:
    free = shutil.disk_usage(folder).free / GIB
    found = f"{free:.0f} GiB free"
    if free < ENOUGH_DISK_GIB:
        remedy = f"outputs, checkpoints and DVC's cache need {ENOUGH_DISK_GIB} GiB: free some, or `dvc gc -w`"
        return Finding("disk", found, "bad", remedy)
    return Finding("disk", found)


def tools() -> list[Finding]:
    findings = []
    if not shutil.which("git"):
        findings.append(Finding("git", "not installed", "bad", "install git: DVC and `rlm-forge init` need it"))
    if not shutil.which(os.environ.get("CXX", "g++")):
        findings.append(
            Finding(
                "C++ compiler",
                "none",
                "note",
                "install g++: vLLM then compiles the model, 2 to 3 times the speed on a CPU",
            )
        )
    return findings or [Finding("tools", "git, C++ compiler")]


def gpu(torch_version: str | None, nodes: Path = Path("/dev"), variables: Mapping[str, str] = os.environ) -> Finding:
    """The GPUs that can be seen. `torch_version`: as installed, None if it is not."""
    if not list(nodes.glob("nvidia[0-9]*")):
        return Finding("GPU", "none; models run on the processor")
    if variables.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1"):
        return Finding("GPU", "hidden by CUDA_VISIBLE_DEVICES", "note", "unset it to use the GPU")
    query = ["nvidia-smi", "--query-gpu=name,memory.total,memory.used", "--format=csv,noheader"]
    try:
        result = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return Finding("GPU", f"nvidia-smi fails: {error}", "bad", "mend the driver: `nvidia-smi` must list the GPU")
    found = "; ".join(result.stdout.strip().splitlines())
    if torch_version is not None and "+cpu" in torch_version:
        return Finding("GPU", f"{found}; but torch is {torch_version}", "note", "to use it: make setup ENV=gpu")
    return Finding("GPU", found)


def sandbox() -> list[Finding]:
    """A real worker is started and tries what should be refused."""
    from rlm_core.repl import probe

    report = probe()
    reasons = {layer.name: f" ({layer.detail})" if layer.detail else "" for layer in report.layers}
    findings = [
        Finding(
            f"sandbox: {layer.name}",
            f"{'stops' if layer.active else f'off{reasons[layer.name]}; would stop'} {layer.stops}",
            "ok" if layer.active else ("bad" if layer.required else "note"),
            "" if layer.active else layer.remedy,
        )
        for layer in report.layers
    ]
    failed = ", ".join(report.failed_checks) or report.error
    passed = f"{sum(report.checks.values())} of {len(report.checks)} things that it tried went as they should"
    last = (
        Finding("sandbox: a worker", passed)
        if report.full
        else Finding("sandbox: a worker", failed, "bad", report.explain())
    )
    return [*findings, last]
