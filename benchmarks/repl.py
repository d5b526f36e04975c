"""Time to open a REPL, a round trip, a 50 MB context, many at once, memory a worker: `python -m benchmarks.repl`.

Prints medians measured in one run, and writes them as JSON with `--json FILE`. The same worker is also opened without a
sandbox, and a bare `python -c pass` is started, so that the cost of each part can be read off as a ratio.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

from rlm_core.files import write_json
from rlm_core.repl import Repl, ReplLimits, probe

PAPERS = {
    f"p{n}": {"title": f"Paper {n}", "abstract": "On mice.", "text": "We measured mice. " * 3000} for n in range(10)
}
"""Ten papers of 54,000 characters, a usual context."""


async def median_ms(action: Callable[[], Awaitable[Any]], times: int) -> tuple[float, float]:
    """Median and 95th percentile of `action`'s wall time, in milliseconds."""
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        await action()
        seconds.append((time.perf_counter() - start) * 1000)
    return statistics.median(seconds), statistics.quantiles(seconds, n=20)[-1]


async def opening(sandbox: Literal["auto", "none"], times: int) -> dict[str, float]:
    """From nothing to ready: context handed over, layers on, tools made."""
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        async with Repl.open(PAPERS, sandbox=sandbox):
            seconds.append((time.perf_counter() - start) * 1000)
    return {"median_ms": statistics.median(seconds), "p95_ms": statistics.quantiles(seconds, n=20)[-1]}


async def round_trips(times: int) -> dict[str, dict[str, float]]:
    async def answer(name: str, arguments: dict[str, Any]) -> str:
        return "yes"

    rows = {}
    async with Repl.open(PAPERS, subcalls=answer) as repl:
        blocks = {"1 + 1": "1 + 1", "print 2,000 characters": "print('x' * 2000)", "one sub-call": "r = llm_query('?')"}
        for label, code in blocks.items():
            median, p95 = await median_ms(lambda code=code: repl.execute(code), times)  # type: ignore[misc]
            rows[label] = {"median_ms": median, "p95_ms": p95}
    return rows


async def large_context(megabytes: int, times: int) -> dict[str, float]:
    context = "All mice were fed.\n" * (megabytes * 1_000_000 // 19)
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        async with Repl.open(context) as repl:
            seconds.append((time.perf_counter() - start) * 1000)
            length = (await repl.execute("len(context)")).stdout
            assert int(length) == len(context), length
            private = memory_kib(repl.pid)["private"]
    return {"megabytes": megabytes, "median_ms": statistics.median(seconds), "private_mib": private / 1024}


async def many(count: int) -> dict[str, float]:
    """`count` REPLs at once: time until all are open, and until all have run a block, and what they take."""
    repls = [Repl.open(PAPERS, limits=ReplLimits(open_seconds=300)) for _ in range(count)]
    start = time.perf_counter()
    try:
        await asyncio.gather(*(repl.__aenter__() for repl in repls))
        opened = time.perf_counter() - start
        start = time.perf_counter()
        results = await asyncio.gather(*(repl.execute("sum(range(1000))") for repl in repls))
        ran = time.perf_counter() - start
        assert all(r.stdout == "499500\n" for r in results)
        sample = [memory_kib(repl.pid) for repl in repls[:: max(count // 50, 1)]]
    finally:
        start = time.perf_counter()
        await asyncio.gather(*(repl.__aexit__(None, None, None) for repl in repls))
    return {
        "repls": count,
        "open_all_seconds": opened,
        "block_each_seconds": ran,
        "close_all_seconds": time.perf_counter() - start,
        "private_mib_each": statistics.mean(row["private"] for row in sample) / 1024,
        "proportional_mib_each": statistics.mean(row["pss"] for row in sample) / 1024,
    }


def memory_kib(pid: int | None) -> dict[str, float]:
    """Private (its own) and proportional memory of a worker, from the kernel's smaps_rollup."""
    rows = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        key, value, _ = line.split()
        rows[key] = float(value)
    return {"private": rows["Private_Dirty:"] + rows["Private_Clean:"], "pss": rows["Pss:"]}


def bare_interpreter(times: int) -> float:
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-I", "-S", "-c", "pass"], check=True)
        seconds.append((time.perf_counter() - start) * 1000)
    return statistics.median(seconds)


async def measure(times: int, count: int) -> dict[str, Any]:
    report = probe()
    start = time.perf_counter()
    figures: dict[str, Any] = {
        "cores": len(os.sched_getaffinity(0)),
        "python": sys.version.split()[0],
        "layers": [layer.name for layer in report.layers if layer.active],
        "bare_python_ms": bare_interpreter(max(times // 5, 5)),
        "open": await opening("auto", times),
        "open_without_sandbox": await opening("none", times),
        "round_trip": await round_trips(times * 5),
        "large_context": await large_context(50, 5),
        "many": await many(count),
    }
    figures["open_over_bare_python"] = figures["open"]["median_ms"] / figures["bare_python_ms"]
    figures["sandbox_over_none"] = figures["open"]["median_ms"] / figures["open_without_sandbox"]["median_ms"]
    figures["seconds"] = time.perf_counter() - start
    return figures


def show(figures: dict[str, Any]) -> None:
    print(f"layers: {', '.join(figures['layers'])}; {figures['cores']} cores, Python {figures['python']}")
    print(f"bare `python -I -S -c pass`      {figures['bare_python_ms']:8.2f} ms")
    print(
        f"open, sandboxed                  {figures['open']['median_ms']:8.2f} ms (95 %: {figures['open']['p95_ms']:.2f})"
    )
    print(f"open, sandbox none               {figures['open_without_sandbox']['median_ms']:8.2f} ms")
    print(f"  sandboxed / none               {figures['sandbox_over_none']:8.2f}")
    print(f"  sandboxed / bare python        {figures['open_over_bare_python']:8.2f}")
    for label, row in figures["round_trip"].items():
        print(f"round trip, {label:<22}{row['median_ms']:7.3f} ms (95 %: {row['p95_ms']:.3f})")
    big = figures["large_context"]
    print(
        f"open, {big['megabytes']} MB of text             {big['median_ms']:8.1f} ms, {big['private_mib']:.0f} MiB private"
    )
    row = figures["many"]
    print(
        f"{row['repls']} REPLs at once: open {row['open_all_seconds']:.2f} s, a block each {row['block_each_seconds']:.2f} s, "
        f"close {row['close_all_seconds']:.2f} s; {row['private_mib_each']:.1f} MiB private, "
        f"{row['proportional_mib_each']:.1f} MiB proportional each"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--times", type=int, default=100, help="openings measured (default 100)")
    parser.add_argument("--many", type=int, default=200, help="REPLs open at once (default 200)")
    parser.add_argument("--json", type=Path, help="write the figures here")
    arguments = parser.parse_args()
    figures = asyncio.run(measure(arguments.times, arguments.many))
    show(figures)
    if arguments.json:
        write_json(arguments.json, figures)


if __name__ == "__main__":
    main()
