"""The work of `benchmarks.rollouts` by the official package `rlms`, installed into a folder of its own.

Its default environment (`local`: code runs in the process itself, no sandbox), the context handed as prompt, `root_prompt` set.
Trees run as threads of one process, and as one process each. `install` gives the folder; this file is run there as a script:
`python rlms_peer.py URL TREES CONTEXT_FILE threads|processes`, which prints one JSON line.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

VERSION = "0.1.3"
CHILDREN = 8
_MARK = "rlms_peer: "
FOLDER = Path(".cache/bench") / f"rlms-{VERSION}"


def install() -> Path | None:
    """The folder with the package, made at the first call by pip; None, with pip's last line printed, where that fails."""
    if (FOLDER / "done").exists():
        return FOLDER
    FOLDER.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--target",
        str(FOLDER),
    ]
    done = subprocess.run([*command, f"rlms=={VERSION}"], capture_output=True, text=True, check=False, timeout=900)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["pip failed"]
        print(
            f"rlms {VERSION} cannot be installed here, so only our own runs are measured: {lines[-1]}", file=sys.stderr
        )
        return None
    (FOLDER / "done").touch()
    return FOLDER


def compare(folder: Path, url: str, trees: int, context: Path, how: str, *, limit_seconds: float) -> dict[str, Any]:
    """Run this file in an interpreter that sees `folder`; `how` is threads or processes."""
    command = [sys.executable, str(Path(__file__).resolve()), url, str(trees), str(context.resolve()), how]
    environment = {**os.environ, "PYTHONPATH": str(folder.resolve()), "OPENAI_API_KEY": "none"}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=limit_seconds
        )
    except subprocess.TimeoutExpired:
        return {"trees": trees, "how": how, "error": f"not done after {limit_seconds:.0f} s"}
    if done.returncode:
        return {"trees": trees, "how": how, "error": (done.stderr.strip().splitlines() or ["no message"])[-1][:300]}
    row = _said(done.stdout)
    return {"trees": trees, "how": how, **(row if isinstance(row, dict) else {"error": "it ended without a result"})}


def run_tree(url: str, context: str) -> str:
    """ "" when the tree answered as it must, else what went wrong."""
    from rlm import RLM  # type: ignore[import-not-found]

    try:
        model = RLM(
            backend="openai",
            backend_kwargs={"model_name": "rlms", "base_url": url, "api_key": "none"},
            max_iterations=4,
            max_depth=2,
            max_concurrent_subcalls=CHILDREN,
        )
        response = model.completion(context, root_prompt="how many?").response
    except BaseException as error:  # noqa: BLE001 - a failed tree is what is counted
        return f"{type(error).__name__}: {error}"[:200]
    return "" if response == str(CHILDREN) else f"answered {response[:100]!r}"


def as_threads(url: str, trees: int, context: str) -> tuple[float, list[str]]:
    start = time.monotonic()
    with ThreadPoolExecutor(trees) as pool:
        problems = list(pool.map(lambda _: run_tree(url, context), range(trees)))
    return time.monotonic() - start, problems


def as_processes(url: str, trees: int, context: Path) -> tuple[float, list[str]]:
    """Each process imports the package, says that it is ready, and waits for the start: imports are not counted."""
    command = [sys.executable, str(Path(__file__).resolve()), url, "1", str(context), "one"]
    workers = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(trees)
    ]
    for worker in workers:
        assert worker.stdout is not None
        worker.stdout.readline()
    start = time.monotonic()
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    outputs = [worker.communicate() for worker in workers]
    seconds = time.monotonic() - start
    return seconds, [
        str(_said(out)) if not worker.returncode else err[-200:]
        for worker, (out, err) in zip(workers, outputs, strict=True)
    ]


def _say(value: Any) -> None:
    """On the true stdout: what trees print goes to whatever stdout their threads left behind."""
    assert sys.__stdout__ is not None
    print(f"\n{_MARK}{json.dumps(value)}", file=sys.__stdout__, flush=True)


def _said(output: str) -> Any:
    lines = [line.removeprefix(_MARK) for line in output.splitlines() if line.startswith(_MARK)]
    return json.loads(lines[-1]) if lines else "no result"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("trees", type=int)
    parser.add_argument("context", type=Path)
    parser.add_argument("how", choices=["threads", "processes", "one"])
    arguments = parser.parse_args()
    text = arguments.context.read_text()
    if arguments.how == "one":
        import rlm  # type: ignore[import-not-found]

        print("ready", flush=True)
        sys.stdin.readline()
        _say(run_tree(arguments.url, text))
        return
    if arguments.how == "threads":
        import rlm  # noqa: F401

        seconds, problems = as_threads(arguments.url, arguments.trees, text)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    else:
        seconds, problems = as_processes(arguments.url, arguments.trees, arguments.context)
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * arguments.trees
    failed = [problem.strip() for problem in problems if problem.strip()]
    row = {
        "seconds": seconds,
        "failed": len(failed),
        "first_failure": failed[0] if failed else "",
        "peak_mb": peak / 1024,
    }
    _say(row)


if __name__ == "__main__":
    main()
