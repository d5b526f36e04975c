"""The whole pipeline with profiles/smoke.yaml in a fresh copy of this tree under `.smoke/` (its reports stay for a look)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COPY = ROOT / ".smoke"


def copy_tree(target: Path) -> None:
    """Files that git tracks or would track, with the smoke profile as params.yaml."""
    shutil.rmtree(target, ignore_errors=True)
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listing.stdout.decode().split("\0")):
        source = ROOT / name
        if source.is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)
    (target / "dvc.lock").unlink(missing_ok=True)
    shutil.copy2(ROOT / "profiles" / "smoke.yaml", target / "params.yaml")
    # the copy lies inside this repository but is none itself
    subprocess.run([sys.executable, "-m", "dvc", "config", "core.no_scm", "true"], cwd=target, check=True)


def main() -> int:
    start = time.monotonic()
    copy_tree(COPY)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PREFECT_", "MLFLOW_", "RLM_"))}
    code = subprocess.run([sys.executable, "-m", "flows.run"], cwd=COPY, env=environment, check=False).returncode
    print(f"smoke: {'done' if code == 0 else 'FAILED'} in {time.monotonic() - start:.0f} s; look at .smoke/reports/")
    return code


if __name__ == "__main__":
    sys.exit(main())
