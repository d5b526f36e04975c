"""A program for two processes: the leader compares its gradient, update and checkpoint with those of one process alone.

    torchrun --nproc_per_node 2 two_processes.py FOLDER [none | chain | tree] [lora] [bf16]

Writes FOLDER/result.json.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import torch

from rlm_core.grpo.learner import Learner
from rlm_core.grpo.parallel import Team
from rlm_core.optim import whole
from rlm_core.params import GrpoParams, LoraParams

spec = importlib.util.spec_from_file_location("kit", Path(__file__).with_name("conftest.py"))
assert spec is not None and spec.loader is not None
kit = importlib.util.module_from_spec(spec)
spec.loader.exec_module(kit)


def gradient(learner: Learner) -> torch.Tensor:
    return torch.cat([whole(master.grad).flatten() for master in learner.optimizer.masters])


class Watched(Learner):
    """Keeps the gradient of its last update: what the optimizer has cleared when `update` returns."""

    last: torch.Tensor

    def accumulate(self, samples: Any) -> Any:
        report = super().accumulate(samples)
        self.last = gradient(self)
        return report


def main(folder: Path, packing: str, lora: bool, dtype: torch.dtype) -> None:
    torch.set_num_threads(1)
    team = Team.join()
    config = GrpoParams(packing=packing, max_tokens_per_pass=256, warmup_steps=0, lora=LoraParams() if lora else None)
    learner = Watched(kit.build_model("llama").to(dtype), config, team=team)
    if not team.leads:
        learner.follow()
        return
    first, second = kit.random_samples(4, num_rollouts=8), kit.random_samples(5)
    report = learner.update(first, 0).report
    together = learner.last
    learner.save(folder / "state.pt")
    learner.load(folder / "state.pt")
    learner.update(second, 1)
    after, weights = learner.last, learner.weights()
    weights = {name: tensor.clone() for name, tensor in weights.items()}
    learner.dismiss()
    alone = Watched(kit.build_model("llama").to(dtype), config)
    report_alone = alone.update(first, 0).report
    gradient_alone = alone.last
    taken_up = Watched(kit.build_model("llama").to(dtype), config)
    taken_up.load(folder / "state.pt")  # what two processes saved, in one
    taken_up.update(second, 1)
    result = {
        "processes": team.size,
        "shards": team.shards,
        "gradient": kit.relative(together, gradient_alone),
        "resumed": kit.relative(after, taken_up.last),
        "weights": max((weights[n] - t).abs().max().item() for n, t in taken_up.weights().items()),
        "loss": [report.loss, report_alone.loss],
        "samples": [report.num_samples, report_alone.num_samples],
        "entropy": [report.entropy, report_alone.entropy],
    }
    (folder / "result.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main(
        Path(sys.argv[1]),
        sys.argv[2],
        "lora" in sys.argv[3:],
        torch.bfloat16 if "bf16" in sys.argv[3:] else torch.float32,
    )
