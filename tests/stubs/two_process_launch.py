"""How the training tests start a program in two processes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def launcher(kind: str) -> list[str]:
    """What stands before a program (or -m MODULE): `fsdp2` shards the weights over the two processes, others copy them."""
    if kind != "fsdp2":
        return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    config = str(ROOT / "profiles/accelerate/fsdp2.yaml")
    ways = ["--config_file", config, "--num_processes", "2", "--main_process_port", "0"]
    return [sys.executable, "-m", "accelerate.commands.launch", *ways]


def environment(**more: str) -> dict[str, str]:
    """This process's, with the project importable and one thread each."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **more}
