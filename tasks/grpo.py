"""Stage `grpo`: train the SFT model on its own rollouts over the training papers.

Reads models/sft, data/queries/{train,val}.jsonl, data/parsed. Writes models/grpo and reports/training.json.
A killed stage goes on after its last finished step.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlm_core.files import read_jsonl, write_json
from rlm_core.papers.library import attach_context, load_library
from rlm_core.policies import PolicyError
from rlm_core.records import Query
from rlm_core.rewards import Judge
from tasks.common import Stage, StageError, dump, log, require, stage_main
from tasks.judging import open_judge
from tasks.training import (
    file_keys,
    forget,
    model_key,
    one_run,
    publish_folder,
    resumable_folder,
    save_model,
    train_params,
)

if TYPE_CHECKING:
    from rlm_core.grpo.actor import Actor

SFT = Path("models/sft")
OUT = Path("models/grpo")
TRAIN = Path("data/queries/train.jsonl")
VAL = Path("data/queries/val.jsonl")
PARSED = Path("data/parsed")
REPORT = Path("reports/training.json")


def run(stage: Stage) -> None:
    require(SFT, "sft")
    queries, validation = _queries(TRAIN), _queries(VAL)
    if not queries:
        raise StageError(f"{TRAIN} holds no query that can be trained on; add papers or raise queries.single_per_paper")
    key = [model_key(SFT), file_keys(TRAIN, VAL), train_params(stage, "grpo", "rollout", "repl", "judge", "model")]
    folder = resumable_folder(stage, *key)
    with one_run(stage, folder):
        judge, judge_check = open_judge(stage)
        try:
            state = asyncio.run(_train(stage, folder, queries, validation, judge))
        except PolicyError as error:
            raise StageError(f"{error}. Run the stage again: it goes on after its last finished step") from error
        chosen = (
            folder / "best" if stage.params.grpo.select == "best" and state.best_step is not None else folder / "last"
        )
        publish_folder(chosen, OUT)
        _report(stage, state, chosen.name, judge_check)
    forget(folder)


def _queries(path: Path) -> list[Query]:
    """Queries whose evidence lies in the parsed text, with their contexts."""
    require(path, "queries")
    library = load_library(require(PARSED, "parse"))
    rows = [Query.from_dict(row) for row in read_jsonl(path)]
    return [attach_context(q, library) for q in rows if q.evidence and all(e.span is not None for e in q.evidence)]


async def _train(stage: Stage, folder: Path, queries: list[Query], validation: list[Query], judge: Judge) -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    from rlm_core.grpo.learner import Learner
    from rlm_core.grpo.loop import StepLog, Training
    from tasks.traces import log_rollouts

    params = stage.params
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = AutoModelForCausalLM.from_pretrained(SFT, dtype=getattr(torch, params.model.dtype)).to(device)

    def on_log(entry: StepLog) -> None:
        stage.log_metrics(entry.figures, step=entry.step)
        limit = params.mlflow.traces_per_step
        log_rollouts(stage.tracker, entry.rollouts, entry.judgements, step=entry.step, limit=limit)

    async with open_actor(stage) as actor:
        state = await Training(
            learner=Learner(model, params.grpo),
            actor=actor,
            judge=judge,
            queries=queries,
            validation=validation,
            config=params.grpo,
            seed=params.seed,
            folder=folder,
            save_best=lambda best, target: save_model(best, target, like=SFT, dtype=params.model.dtype),
            on_log=on_log,
            extra={"mlflow_run_id": stage.tracker.run_id},
        ).run()
    save_model(model, folder / "last", like=SFT, dtype=params.model.dtype)
    return state


@contextlib.asynccontextmanager
async def open_actor(stage: Stage) -> AsyncIterator[Actor]:
    """A vLLM server on the SFT model, as the loop's sampling side; with `children: frozen` a second one for the children,
    whose weights stay. They end with the block."""
    from rlm_core.grpo.actor import ServerActor
    from rlm_core.policies import ChatRenderer, VllmPolicy, VllmServer, load_tokenizer, stop_ids
    from rlm_core.rollouts import RolloutConfig

    params = stage.params
    config = RolloutConfig.from_params(params, temperature=params.grpo.temperature)
    async with (
        VllmServer.from_params(params.serve, SFT, dtype=params.model.dtype) as server,
        VllmPolicy(server, ChatRenderer(load_tokenizer(SFT)), stop_ids=stop_ids(SFT)) as policy,
        contextlib.AsyncExitStack() as also,
    ):
        child_policy = None
        if params.grpo.children == "frozen":
            frozen = await also.enter_async_context(
                VllmServer.from_params(params.serve, SFT, dtype=params.model.dtype)
            )
            renderer = ChatRenderer(load_tokenizer(SFT))
            child_policy = await also.enter_async_context(VllmPolicy(frozen, renderer, stop_ids=stop_ids(SFT)))
        yield ServerActor(
            server, policy, config, concurrency=params.serve.max_num_seqs, child_policy=child_policy
        )


def _report(stage: Stage, state: Any, chosen: str, judge_check: dict[str, Any] | None) -> None:
    first, last = state.curve[0], state.curve[-1]
    record = {
        "steps": state.curve,
        "validation": state.validation,
        "weights": chosen,
        "weights_step": state.best_step if chosen == "best" else state.step,
        "best_val_reward": state.best_reward,
        "judge": stage.params.judge.kind,
        "judge_check": judge_check,
        "params": dump(stage.params.grpo),
    }
    write_json(REPORT, record)
    stage.log_artifact(REPORT)
    figures = {f"final_{k}": last[k] for k in ("reward_mean", "evidence_f1", "answered_share") if k in last}
    stage.log_metrics(figures)
    stage.tracker.log_model(OUT, "grpo", figures)
    if "reward_mean" in first and "reward_mean" in last:
        log.info("grpo: reward %.3f -> %.3f; %s weights published", first["reward_mean"], last["reward_mean"], chosen)


if __name__ == "__main__":
    stage_main("grpo", run)
