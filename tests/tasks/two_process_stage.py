"""A program for two processes: the stage `grpo` in the folder that it is started in, on a scripted sampler.

    accelerate launch --config_file profiles/accelerate/fsdp2.yaml --num_processes 2 two_process_stage.py [PUBLISHED]

Where the leader is about to publish weights for the PUBLISHED-th time, counted from 0, it is killed; without it, it ends.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import torch

from tasks import grpo
from tasks.common import Stage, stage_main

spec = importlib.util.spec_from_file_location("grpo_kit", Path(__file__).with_name("test_grpo.py"))
assert spec is not None and spec.loader is not None
kit = importlib.util.module_from_spec(spec)
spec.loader.exec_module(kit)


def main(killed_at: int | None) -> None:
    torch.set_num_threads(1)
    if int(os.environ["RANK"]) > 0:
        grpo.follow()
        return

    class Sampler(kit.ScriptedSampler):  # type: ignore[name-defined]
        async def publish(self, model: Any) -> int:
            if self.version == killed_at:
                os.kill(os.getpid(), signal.SIGKILL)
            version: int = await super().publish(model)
            return version

    @contextlib.asynccontextmanager
    async def scripted(stage: Stage) -> AsyncIterator[Any]:
        yield Sampler(stage)

    grpo.open_actor = scripted
    stage_main("grpo", grpo.run)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else None)
