"""Rejection-sampling SFT, the ablation's other way to spend sampled tokens: roll out, keep the best trees, imitate them.

The SFT model samples groups of trees of the queries that GRPO would draw, until the budget of tokens is spent; its weights
stay. Of each group with a spread of rewards the best trees are kept, with all their turns and children, exactly as sampled.
Then the settings of the stage `sft` train on them. Batches are kept as they finish; training resumes from checkpoints.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlm_core.distill.merging import training_rows
from rlm_core.files import read_json, write_json
from rlm_core.progress import Progress
from rlm_core.records import Judgement, Rollout
from rlm_core.rollouts import derive_seed
from tasks import grpo
from tasks.common import Stage, StageError
from tasks.judging import judge_in_reach, open_judge
from tasks.sft import last_checkpoint, make_trainer
from tasks.training import save_model

BATCHES = Path(".cache/rejection/batches")
TRAINER = Path(".cache/rejection/trainer")


def train_on_best(stage: Stage) -> None:
    """Write models/grpo and reports/training.json, as the stage `grpo` does."""
    batches = asyncio.run(_sample(stage))
    turns = [(row[0], row[1]) for batch in batches for row in batch["turns"]]
    if not turns:
        raise StageError(
            "rejection sampling kept no tree: no group of the SFT model has a spread of rewards; raise the budget"
        )
    rows = training_rows(turns, merge=stage.params.sft.merge_turns)
    TRAINER.mkdir(parents=True, exist_ok=True)
    trainer = make_trainer(stage, grpo.SFT, rows, [], TRAINER)
    resume = last_checkpoint(TRAINER)
    trainer.train(resume_from_checkpoint=str(resume) if resume else None)
    write_json(grpo.REPORT, {"steps": [batch["figures"] for batch in batches], "rows": len(rows), "turns": len(turns)})
    save_model(trainer.model, grpo.OUT, like=grpo.SFT, dtype=stage.params.model.dtype)


async def _sample(stage: Stage) -> list[dict[str, Any]]:
    """Batches until the budget is spent; what was finished before is read, not sampled again."""
    from rlm_core.grpo.batches import judge_trees, roll_out
    from rlm_core.grpo.draws import draw

    params = stage.params.grpo
    budget = params.max_sampled_tokens
    assert budget is not None, "a cell has a budget"
    queries = grpo.trainable_queries(grpo.TRAIN)
    judge, _ = open_judge(stage)
    batches = _finished()
    spent = sum(batch["figures"]["completion_tokens"] for batch in batches)
    with Progress("rejection", budget, "tokens", done=min(budget, spent)) as progress:
        async with grpo.open_actor(stage) as actor:
            while spent < budget:
                step = len(batches)
                drawn = draw(queries, params.queries_per_step, step * params.queries_per_step, stage.params.seed)
                seed = derive_seed(stage.params.seed, "rejection", step)
                rollouts = await roll_out(actor, drawn, params.rollouts_per_query, seed)
                asked = [query for query in drawn for _ in range(params.rollouts_per_query)]
                with judge_in_reach():
                    verdicts = await judge_trees(judge, asked, rollouts)
                batches.append(_batch(step, rollouts, verdicts, params.rollouts_per_query))
                write_json(BATCHES / f"{step:06d}.json", batches[-1])
                tokens = batches[-1]["figures"]["completion_tokens"]
                progress.advance(min(tokens, max(0, budget - spent)))
                spent += tokens
    return batches


def _finished() -> list[dict[str, Any]]:
    return [read_json(path) for path in sorted(BATCHES.glob("*.json"))]


def _batch(
    step: int, rollouts: Sequence[Rollout], verdicts: Sequence[Judgement | None], group_size: int
) -> dict[str, Any]:
    kept = best_trees(rollouts, verdicts, group_size)
    tokens = sum(len(turn.completion_ids) for tree in rollouts for node in tree.walk() for turn in node.turns)
    turns = [
        (list(turn.prompt_ids), list(turn.completion_ids))
        for tree in kept
        for node in tree.walk()
        for turn in node.turns
        if turn.completion_ids
    ]
    return {"figures": {"step": step, "completion_tokens": tokens, "kept": len(kept)}, "turns": turns}


def best_trees(
    rollouts: Sequence[Rollout], verdicts: Sequence[Judgement | None], group_size: int, *, tolerance: float = 1e-6
) -> list[Rollout]:
    """Of each group whose rewards differ, the trees of the highest one. Rewards 1, 0, 1 keep two; 1, 1 keep none: GRPO
    learns nothing from them either."""
    kept = []
    for start in range(0, len(rollouts), group_size):
        pairs = zip(rollouts[start : start + group_size], verdicts[start : start + group_size], strict=True)
        judged = [(tree, verdict.reward) for tree, verdict in pairs if verdict is not None]
        rewards = [reward for _, reward in judged]
        if rewards and max(rewards) - min(rewards) > tolerance:
            kept += [tree for tree, reward in judged if reward >= max(rewards) - tolerance]
    return kept
