"""Packed against per-turn training: time of one accumulation of gradients and tokens computed, as ratios.

    python -m benchmarks.packing [--rollouts 8] [--turns 2] [--shared 450] [--completion 60] [--observation 120]

A group of rollouts of one query, as they come with a kept cue: all share the opening, each turn's prompt extends the turn
before it. Packings are timed in turns, so that a change in the machine's load falls on all of them; the ratio is
that of the medians. Loss and gradient of each packing are compared with `none` in the same run.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from pathlib import Path
from typing import Any

import torch

from rlm_core.files import write_json
from rlm_core.grpo import accumulate_gradients
from rlm_core.params import GrpoParams
from rlm_core.records import TurnSample

MODES = {
    "float32": (torch.float32, None),
    "bfloat16": (torch.bfloat16, None),
    "autocast": (torch.float32, torch.bfloat16),
}
"""Weights, and the type of autocast: `autocast` is what the training loop uses (fp32 weights, bf16 products)."""


def make_group(args: argparse.Namespace, vocabulary: int) -> list[TurnSample]:
    rng = random.Random(args.seed)

    def tokens(count: int) -> list[int]:
        return [rng.randrange(3, vocabulary) for _ in range(count)]

    samples, opening = [], tokens(args.shared)
    for rollout in range(args.rollouts):
        history = list(opening)
        for _ in range(args.turns):
            completion = tokens(args.completion)
            logprobs = [-10.0] * len(completion)
            advantage = rng.choice([-1.0, 1.0])
            weight = 1 / (args.turns * args.rollouts)
            samples.append(TurnSample(history, completion, logprobs, advantage, weight, f"r{rollout}"))
            history = history + completion + tokens(args.observation)
    return samples


def measure(
    model: Any, samples: list[TurnSample], args: argparse.Namespace, autocast: Any
) -> dict[str, dict[str, Any]]:
    seconds: dict[str, list[float]] = {p: [] for p in args.packings}
    found: dict[str, dict[str, Any]] = {}
    gradients: dict[str, torch.Tensor] = {}
    for repeat in range(args.repeats + 1):  # the first warms up and is not counted
        for packing in args.packings:
            limit = args.tree_tokens if packing == "tree" else args.row_tokens
            config = GrpoParams(max_tokens_per_pass=limit)
            model.zero_grad()
            start = time.perf_counter()
            with torch.autocast("cpu", dtype=autocast or torch.bfloat16, enabled=autocast is not None):
                report = accumulate_gradients(model, samples, config, packing)
            if repeat:
                seconds[packing].append(time.perf_counter() - start)
            else:
                gradients[packing] = torch.cat([p.grad.float().flatten() for p in model.parameters()])
                found[packing] = {"tokens": report.num_computed, "passes": report.num_passes, "loss": report.loss}
    base = args.packings[0]
    for packing, row in found.items():
        row["seconds"] = statistics.median(seconds[packing])
        row["speed_ratio"] = statistics.median(seconds[base]) / row["seconds"]
        row["token_ratio"] = found[base]["tokens"] / row["tokens"]
        gap = (gradients[packing] - gradients[base]).norm() / gradients[base].norm()
        row["gradient_difference"] = gap.item()
        row["loss_difference"] = abs(row["loss"] - found[base]["loss"]) / abs(found[base]["loss"])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--rollouts", type=int, default=8)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--shared", type=int, default=450, help="tokens of the opening")
    parser.add_argument("--completion", type=int, default=60, help="tokens a turn")
    parser.add_argument("--observation", type=int, default=120, help="tokens after a turn")
    parser.add_argument("--tree-tokens", type=int, default=4096, help="max_tokens_per_pass of tree")
    parser.add_argument("--row-tokens", type=int, default=4096, help="max_tokens_per_pass of none and chain")
    parser.add_argument("--modes", nargs="+", default=list(MODES), choices=list(MODES))
    parser.add_argument(
        "--packings", nargs="+", default=["none", "chain", "tree"], help="the first is the base of ratios"
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("reports/benchmarks/packing.json"))
    args = parser.parse_args()
    torch.set_num_threads(args.threads)

    from transformers import AutoModelForCausalLM

    from rlm_core.policies import materialise_model

    folder = materialise_model(args.model, dtype="float32")
    results: dict[str, Any] = {"settings": {k: str(v) for k, v in vars(args).items()}}
    print(
        f"{'mode':10} {'packing':8} {'tokens':>8} {'ratio':>6} {'seconds':>8} {'ratio':>6} {'grad diff':>10} {'loss diff':>10}"
    )
    for mode in args.modes:
        weights, autocast = MODES[mode]
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=weights)
        samples = make_group(args, model.config.vocab_size)
        results[mode] = measure(model, samples, args, autocast)
        for packing, row in results[mode].items():
            print(
                f"{mode:10} {packing:8} {row['tokens']:8} {row['token_ratio']:6.2f} {row['seconds']:8.2f} "
                f"{row['speed_ratio']:6.2f} {row['gradient_difference']:10.1e} {row['loss_difference']:10.1e}",
                flush=True,
            )
    write_json(args.out, results)
    print(json.dumps({"written": str(args.out)}))


if __name__ == "__main__":
    main()
