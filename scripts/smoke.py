"""The whole pipeline with profiles/smoke.yaml in a fresh copy of this tree under `.smoke/` (its reports stay for a look)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from flows.workspace import copy_tree

ROOT = Path(__file__).resolve().parent.parent
COPY = ROOT / ".smoke"


def smoke_copy(target: Path) -> None:
    """A copy of this tree with the smoke profile as params.yaml, in which nothing has run."""
    copy_tree(target)
    (target / "dvc.lock").unlink(missing_ok=True)
    shutil.copy2(ROOT / "profiles" / "smoke.yaml", target / "params.yaml")


def main() -> int:
    start = time.monotonic()
    smoke_copy(COPY)
    foreign = ("PREFECT_", "MLFLOW_", "RLM_")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(foreign) or k == "RLM_LOCK_DIR"}
    code = subprocess.run([sys.executable, "-m", "flows.run"], cwd=COPY, env=environment, check=False).returncode
    print(f"smoke: {'done' if code == 0 else 'FAILED'} in {time.monotonic() - start:.0f} s; look at .smoke/reports/")
    return code


if __name__ == "__main__":
    sys.exit(main())
