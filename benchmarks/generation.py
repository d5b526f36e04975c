"""vLLM against transformers' `generate` on the same prompts, in one run: tokens a second, and their ratio.

    python -m benchmarks.generation [--model smollm2-135m] [--prompts 32] [--prompt-tokens 600] [--max-tokens 100]

Prompts are as a rollout tree makes them: all begin with the same system message and task (two thirds of the tokens),
then differ. Both sides sample at temperature 1 in bfloat16, stop at the same tokens and answer all prompts at once,
transformers in batches of --batch. Each side answers twice, in turns, so that a change in the machine's load falls on
both; the faster of the two counts. vLLM's first round fills its prefix cache and is reported beside.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import time
from pathlib import Path
from typing import Any

from rlm_core.files import write_json
from rlm_core.policies import (
    ChatRenderer,
    Message,
    Policy,
    Sampling,
    TransformersPolicy,
    VllmPolicy,
    VllmServer,
    load_tokenizer,
    materialise_model,
)

SENTENCE = "the river keeps its bed where stones are heavy and moves it where sand is fine after every flood"


def make_prompts(renderer: ChatRenderer, count: int, tokens: int) -> list[list[Message]]:
    """`count` conversations of about `tokens` tokens, of which the first two thirds are shared."""

    vocabulary = SENTENCE.split()

    def text(offset: int, words: int) -> str:
        return " ".join(vocabulary[(offset + i * (1 + offset % 5)) % len(vocabulary)] for i in range(words))

    prompts = []
    for number in range(count):
        prompts.append(
            [
                Message("system", f"You read reports. {text(0, tokens * 2 // 3)}"),
                Message(
                    "user",
                    f"Report {number}: {text(number + 1, tokens // 3 - 40)}. What happens next? Tell it at length.",
                ),
            ]
        )
    longest = max(len(renderer.prompt_ids(p)) for p in prompts)
    assert longest < tokens * 1.3, longest
    return prompts


async def answer_all(policy: Policy, prompts: list[list[Message]], max_tokens: int, seed: int) -> dict[str, float]:
    start = time.perf_counter()
    actions = await asyncio.gather(
        *(policy.act(p, Sampling(max_tokens=max_tokens, seed=seed + i)) for i, p in enumerate(prompts))
    )
    seconds = time.perf_counter() - start
    tokens = sum(a.completion_tokens for a in actions)
    return {"seconds": seconds, "completion_tokens": tokens, "tokens_per_second": tokens / seconds}


async def compare(args: argparse.Namespace) -> dict[str, Any]:
    folder = materialise_model(args.model)
    renderer = ChatRenderer(load_tokenizer(folder))
    prompts = make_prompts(renderer, args.prompts, args.prompt_tokens)
    rounds: dict[str, list[dict[str, float]]] = {"vllm": [], "transformers": []}
    server = VllmServer(
        folder, max_model_len=2 * args.prompt_tokens + args.max_tokens, eager=args.eager, start_timeout_seconds=600
    )
    async with (
        server,
        VllmPolicy(server, renderer) as vllm,
        TransformersPolicy(folder, renderer=renderer, dtype="bfloat16", max_batch_size=args.batch) as transformers,
    ):
        await answer_all(vllm, prompts[:1], 8, seed=0)  # the first call of a server warms it up
        await answer_all(transformers, prompts[:1], 8, seed=0)
        for repeat in range(args.rounds):
            for name, policy in (("vllm", vllm), ("transformers", transformers)):
                rounds[name].append(await answer_all(policy, prompts, args.max_tokens, seed=1000 * (repeat + 1)))
                print(f"round {repeat + 1} {name:13} {rounds[name][-1]['tokens_per_second']:8.1f} tokens/s", flush=True)
        start = time.perf_counter()
        await server.reload(transformers.model.state_dict())
        reload_seconds = time.perf_counter() - start
    best = {name: max(r["tokens_per_second"] for r in rows) for name, rows in rounds.items()}
    return {
        "settings": {k: str(v) for k, v in vars(args).items()},
        "prompt_tokens": sum(len(renderer.prompt_ids(p)) for p in prompts) / len(prompts),
        "rounds": rounds,
        "tokens_per_second": best,
        "ratio": best["vllm"] / best["transformers"],
        "server_start_seconds": server.start_seconds,
        "reload_seconds": reload_seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--prompts", type=int, default=32)
    parser.add_argument("--prompt-tokens", type=int, default=600)
    parser.add_argument("--max-tokens", type=int, default=100)
    parser.add_argument("--batch", type=int, default=32, help="rows of a transformers batch")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--eager", action="store_true", help="vLLM without compilation")
    parser.add_argument("--out", type=Path, default=Path("reports/benchmarks/generation.json"))
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    result = asyncio.run(compare(args))
    write_json(args.out, result)
    print(f"{'':14}{'tokens/s':>9}")
    for name, rate in result["tokens_per_second"].items():
        print(f"{name:14}{rate:9.1f}")
    print(f"ratio {result['ratio']:.1f}; server start {result['server_start_seconds']:.1f} s, ", end="")
    print(f"reload {result['reload_seconds']:.2f} s")
    print(json.dumps({"written": str(args.out)}))


if __name__ == "__main__":
    main()
