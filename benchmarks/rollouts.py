"""Rollout trees at once against the critical path: `python -m benchmarks.rollouts [--trees 1 8 64] [--rlms 1 8] [--json FILE]`.

Every model call takes 0.5 s on a loopback server that serves any number at once. A tree is a root of 3 turns whose first asks
8 children of 2 turns each, so no tree can end before 1 + 2 + 2 = 5 calls, 2.5 s. Printed is the wall time over that, with the
sandbox on; the rest is start of workers, code, and the harness. A size is run in a process of its own, after a warm-up tree.
`--rlms` runs the same trees by the official package `rlms` beside it (`benchmarks.rlms_peer`).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks import rlms_peer
from benchmarks.slow_model import CHILDREN, TURNS
from rlm_core.files import write_json
from rlm_core.policies import OpenAIPolicy
from rlm_core.progress import Progress
from rlm_core.records import Query, Status
from rlm_core.rollouts import RolloutConfig, failures, run_rollouts

CALL_SECONDS = 0.5
CRITICAL_PATH = CALL_SECONDS * (TURNS[0] + TURNS[1])
PAPERS = {f"p{n}": {"title": f"Paper {n}", "abstract": "", "text": "We measured mice. " * 3000} for n in range(10)}
"""Ten papers of 54,000 characters, a usual context."""


@contextmanager
def slow_model() -> Iterator[str]:
    """The server in a process of its own; yields its address."""
    command = [sys.executable, "-m", "benchmarks.slow_model", str(CALL_SECONDS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None and server.stdin is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.stdin.close()


@contextmanager
def memory_in_use() -> Iterator[list[float]]:
    """The machine's memory in use above that at the start, GiB: its peak is the last element at the end."""
    peaks, start, stop = [0.0], _available_gib(), threading.Event()

    def watch() -> None:
        while not stop.wait(0.1):
            peaks[0] = max(peaks[0], start - _available_gib())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peaks
    finally:
        stop.set()
        thread.join()


def _available_gib() -> float:
    rows = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    return int(rows["MemAvailable"].split()[0]) / 2**20


async def measure(url: str, trees: int) -> dict[str, Any]:
    """Run `trees` trees at once, and compare with the critical path."""
    query = Query(id="bench", question="how many?", context=PAPERS)
    config = RolloutConfig(prompt="compact", max_turns=4, max_depth=1, max_children_per_call=CHILDREN, wall_seconds=600)
    calls = trees * (1 + CHILDREN)
    async with OpenAIPolicy(url, "slow", max_concurrency=calls, timeout_seconds=300) as policy:
        await run_rollouts([query], policy, config)
        with memory_in_use() as peaks:
            start, busy = time.monotonic(), _processor_seconds()
            rollouts = await run_rollouts([query], policy, config, samples=trees, concurrency=trees)
            seconds = time.monotonic() - start
    sound = sum(r.status is Status.ANSWERED and r.answer == CHILDREN and not failures(r) for r in rollouts)
    return {
        "trees": trees,
        "seconds": seconds,
        "ratio": seconds / CRITICAL_PATH,
        "failed": trees - sound,
        "workers": trees * (1 + CHILDREN),
        "host_cpu_seconds": _processor_seconds() - busy,
        "host_peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "machine_peak_gib": peaks[0],
    }


def _processor_seconds() -> float:
    times = os.times()
    return times.user + times.system


def run_sizes(sizes: list[int]) -> list[dict[str, Any]]:
    rows = []
    with slow_model() as url, Progress("rollouts", len(sizes), "sizes") as progress:
        for trees in sizes:
            command = [sys.executable, "-m", "benchmarks.rollouts", "--child", url, str(trees)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise SystemExit(f"{trees} trees: the measuring process failed:\n{done.stderr}")
            rows.append(json.loads(done.stdout.splitlines()[-1]))
            progress.advance()
    return rows


def run_peer(sizes: list[int]) -> list[dict[str, Any]]:
    """The same work by `rlms`, both ways; an empty list where it cannot be installed."""
    folder = rlms_peer.install()
    if folder is None:
        return []
    rows: list[dict[str, Any]] = []
    with slow_model() as url, tempfile.TemporaryDirectory() as scratch, Progress("rlms", 2 * len(sizes)) as progress:
        context = Path(scratch, "context.txt")
        context.write_text("\n\n".join(str(paper["text"]) for paper in PAPERS.values()))
        for trees in sizes:
            for how in ("threads", "processes"):
                rows.append(rlms_peer.compare(folder, url, trees, context, how, limit_seconds=60 + 20 * trees))
                progress.advance()
    return rows


def show_peer(rows: list[dict[str, Any]]) -> str:
    lines = [f"the same by rlms {rlms_peer.VERSION}, no sandbox"]
    lines.append(f"{'trees':>6}{'as':>11}{'seconds':>9}{'ratio':>7}{'failed':>8}{'peak MB':>9}  first failure")
    for row in rows:
        start = f"{row['trees']:>6}{row['how']:>11}"
        if "error" in row:
            lines.append(f"{start}  {row['error']}")
            continue
        figures = (
            f"{row['seconds']:>9.2f}{row['seconds'] / CRITICAL_PATH:>7.2f}{row['failed']:>8}{row['peak_mb']:>9.0f}"
        )
        lines.append(f"{start}{figures}  {row['first_failure'][:100]}")
    return "\n".join(lines)


def show(rows: list[dict[str, Any]]) -> str:
    lines = [
        f"critical path {CRITICAL_PATH:.1f} s ({CALL_SECONDS} s a call), {len(os.sched_getaffinity(0))} cores, sandbox on"
    ]
    lines.append(
        f"{'trees':>6}{'workers':>9}{'seconds':>9}{'ratio':>7}{'failed':>8}{'host CPU s':>12}{'host MB':>9}{'all GiB':>9}"
    )
    for row in rows:
        lines.append(
            f"{row['trees']:>6}{row['workers']:>9}{row['seconds']:>9.2f}{row['ratio']:>7.2f}{row['failed']:>8}"
            f"{row['host_cpu_seconds']:>12.1f}{row['host_peak_mb']:>9.0f}{row['machine_peak_gib']:>9.2f}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trees", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument(
        "--rlms", type=int, nargs="*", default=[], metavar="TREES", help="sizes for the official package"
    )
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--child", nargs=2, metavar=("URL", "TREES"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        url, trees = arguments.child
        print(json.dumps(asyncio.run(measure(url, int(trees)))))
        return
    rows = run_sizes(arguments.trees)
    print(show(rows))
    peer = run_peer(arguments.rlms) if arguments.rlms else []
    if peer:
        print(show_peer(peer))
    if arguments.json:
        write_json(arguments.json, {"critical_path_seconds": CRITICAL_PATH, "rows": rows, "rlms": peer})


if __name__ == "__main__":
    main()
