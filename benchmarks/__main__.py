"""`make bench`: every benchmark in turn, in a process of its own; tables here, JSON under reports/benchmarks/."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

OUT = Path("reports/benchmarks")
BENCHMARKS = {
    "repl": ["--json", str(OUT / "repl.json")],
    "rollouts": ["--rlms", "1", "8", "--json", str(OUT / "rollouts.json")],
    "packing": ["--out", str(OUT / "packing.json")],
    "ingest": ["--out", str(OUT / "ingest.json")],
    "generation": ["--out", str(OUT / "generation.json")],
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(BENCHMARKS)}; all if none is named")
    names = parser.parse_args().names or list(BENCHMARKS)
    if unknown := sorted(set(names) - set(BENCHMARKS)):
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    OUT.mkdir(parents=True, exist_ok=True)
    failed = []
    for name in names:
        print(f"\n== {name}", flush=True)
        if subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *BENCHMARKS[name]], check=False).returncode:
            failed.append(name)
    if failed:
        print(f"\nfailed: {', '.join(failed)}", file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
