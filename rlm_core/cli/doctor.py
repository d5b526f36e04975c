"""`rlm-forge doctor`: what this machine has, what is missing, and how to mend it."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

console = Console()


@dataclass(frozen=True, slots=True)
class Finding:
    what: str
    found: str
    ok: bool
    remedy: str = ""


def doctor() -> None:
    """Check Python, processor, memory, disk, sandbox and the params file; exit code 1 if something must be mended."""
    findings = [python(), processor(), memory(), disk(), params(), *sandbox()]
    table = Table("", "what", "found", "to do")
    for f in findings:
        table.add_row("[green]ok[/]" if f.ok else "[red]!![/]", f.what, escape(f.found), escape(f.remedy))
    console.print(table)
    if not all(f.ok for f in findings):
        raise typer.Exit(1)


def python() -> Finding:
    ok = (3, 11) <= sys.version_info[:2] <= (3, 13)
    return Finding("Python", sys.version.split()[0], ok, "" if ok else "make setup PYTHON=python3.11")


def processor() -> Finding:
    cores = len(os.sched_getaffinity(0))
    flags = set(Path("/proc/cpuinfo").read_text().split())
    wide = [f for f in ("avx2", "avx512f", "avx512_bf16", "amx_bf16", "asimd") if f in flags]
    ok = bool(wide)
    return Finding(
        "processor", f"{cores} cores, {', '.join(wide) or 'no AVX2'}", ok, "" if ok else "vLLM's CPU build needs AVX2"
    )


def memory() -> Finding:
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    ok = gib >= 12
    return Finding(
        "memory",
        f"{gib:.0f} GiB",
        ok,
        "" if ok else "the cpu profile needs 12 GiB with its server; use profiles/smoke.yaml",
    )


def disk() -> Finding:
    gib = shutil.disk_usage(".").free / 2**30
    ok = gib >= 5
    return Finding("free disk", f"{gib:.0f} GiB", ok, "" if ok else "outputs, checkpoints and DVC's cache need 5 GiB")


def params() -> Finding:
    from rlm_core.params import ParamsError, load_params

    if not Path("params.yaml").exists():
        return Finding("params.yaml", "not here", True, "run in the project folder to check it")
    try:
        load_params()
    except ParamsError as error:
        return Finding(
            "params.yaml", str(error), False, "mend the keys named here; `rlm-forge params describe` explains them"
        )
    return Finding("params.yaml", "valid", True)


def sandbox() -> list[Finding]:
    """A real worker is started and tries what should be refused."""
    from rlm_core.repl import probe

    report = probe()
    findings = [
        Finding(f"sandbox: {x.name}", x.stops, x.active or not x.required, "" if x.active else x.remedy)
        for x in report.layers
    ]
    failed = ", ".join(report.failed_checks) or report.error
    passed = f"{sum(report.checks.values())} of {len(report.checks)} checks passed"
    findings.append(
        Finding("sandbox: a worker that tries", failed or passed, report.full, "" if report.full else report.explain())
    )
    return findings
