"""One stage at a time on a device: the stages that fill a GPU (or, without one, all cores) queue for it.

The lock is the machine's, not the project's: two checkouts, two flows and a `dvc repro` by hand wait for each other.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from rlm_core.locks import file_lock

STAGES = frozenset({"sft", "grpo", "evaluate"})
"""Those of dvc.yaml with `meta: {pool: gpu}`."""


def devices(variables: Mapping[str, str] = os.environ, nodes: Path = Path("/dev")) -> list[str]:
    """What this process may compute on: the GPUs it can see, sorted, else `cpu`."""
    visible = variables.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        found = [node.name.removeprefix("nvidia") for node in nodes.glob("nvidia[0-9]*")]
    else:
        found = [name.strip() for name in visible.split(",") if name.strip() not in ("", "-1")]
    return sorted(f"gpu-{name}" for name in found) or ["cpu"]


def lock_folder() -> Path:
    """`RLM_LOCK_DIR`, else a folder of this user under the machine's temporary one."""
    default = Path(tempfile.gettempdir()) / f"rlm-forge-{os.getuid()}"
    return Path(os.environ.get("RLM_LOCK_DIR", default))


@contextlib.contextmanager
def hold_devices(stage: str, on_wait: Callable[[str], None]) -> Iterator[None]:
    """Hold every device this process sees; nothing to hold for a stage that trains and serves nothing.

    Devices are taken in sorted order, so that two processes never wait for each other.
    """
    with contextlib.ExitStack() as held:
        for device in devices() if stage in STAGES else ():
            who = f"stage '{stage}' of {Path.cwd()}"
            held.enter_context(file_lock(lock_folder() / f"{device}.lock", holder=who, on_wait=on_wait))
        yield
