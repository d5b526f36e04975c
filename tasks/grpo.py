"""Stage `grpo`: train the SFT model on its own rollouts over the training papers.

Reads models/sft, data/queries/{train,val}.jsonl, data/parsed. Writes models/grpo and reports/training.json.
A killed stage goes on after its last finished step, in the MLflow run that it began in.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlm_core.files import read_jsonl, write_json
from rlm_core.grpo.draws import draw
from rlm_core.papers.library import attach_context
from rlm_core.params import Params, load_params
from rlm_core.policies import PolicyError
from rlm_core.records import Query
from rlm_core.rewards import Judge
from tasks.common import Stage, StageError, dump, log, require, stage_main
from tasks.contexts import context_files, read_contexts
from tasks.curves import Curves
from tasks.judging import judge_in_reach, open_guard_judge, open_judge
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
    from rlm_core.grpo.learner import Learner
    from rlm_core.grpo.parallel import Team
    from rlm_core.grpo.state import TrainingState

SFT = Path("models/sft")
OUT = Path("models/grpo")
TRAIN = Path("data/queries/train.jsonl")
VAL = Path("data/queries/val.jsonl")
REPORT = Path("reports/training.json")


def run(stage: Stage) -> None:
    require(SFT, "sft")
    if stage.params.grpo.children == "frozen" and stage.params.serve.url:
        raise StageError(
            "grpo.children 'frozen' needs a second server for the SFT model; unset serve.url to start both"
        )
    queries, validation = trainable_queries(TRAIN), trainable_queries(VAL)
    if not queries:
        raise StageError(f"{TRAIN} holds no query that can be trained on; add papers or raise queries.single_per_paper")
    try:
        draw(queries, 1, 0, stage.params.seed, multi_share=stage.params.grpo.multi_share)
    except ValueError as error:
        raise StageError(f"{TRAIN}: {error}") from error
    settings = train_params(stage, "grpo", "rollout", "repl", "judge", "model")
    key = [model_key(SFT), file_keys(TRAIN, VAL), file_keys(*context_files()), settings]
    folder = resumable_folder(stage, *key)
    with one_run(stage, folder), _told_faults(), judge_in_reach():
        stage.tracker.log_datasets("training", TRAIN)
        stage.tracker.log_datasets("validation", VAL)
        judge, judge_check = open_judge(stage)
        guard, guard_check = open_guard_judge(stage)
        checks = {"judge_check": judge_check, "guard_judge_check": guard_check}
        state = asyncio.run(_train(stage, folder, queries, validation, judge, guard))
        best = stage.params.grpo.select == "best" and state.best_step is not None
        _publish(_best_folder(folder, state) if best else folder / "last")
        _report(stage, state, "best" if best else "last", checks)
    forget(folder)


@contextlib.contextmanager
def _told_faults() -> Iterator[None]:
    """What a person can mend, as `StageError`: a server, a disk, a params value that the data does not bear."""
    from rlm_core.grpo.state import CheckpointError

    again = "Run the stage again: it goes on after its last finished step"
    try:
        yield
    except PolicyError as error:
        raise StageError(f"{error}. {again}") from error
    except (CheckpointError, FloatingPointError) as error:
        raise StageError(str(error)) from error
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise StageError(f"the disk is full ({error}); make room. {again}") from error


def _publish(source: Path) -> None:
    """Make the model folder. The weights stay in the cache until the stage has ended: a kill now must not lose them."""
    work = OUT.with_name(f".{OUT.name}.part")
    shutil.rmtree(work, ignore_errors=True)

    def link(file: str, target: str) -> None:
        try:
            os.link(file, target)
        except OSError:  # another file system
            shutil.copy2(file, target)

    shutil.copytree(source, work, copy_function=link)
    publish_folder(work, OUT)


def _best_folder(folder: Path, state: TrainingState) -> Path:
    from rlm_core.grpo.state import best_folder

    assert state.best_step is not None
    return best_folder(folder, state.best_step)


def trainable_queries(path: Path) -> list[Query]:
    """Queries whose evidence lies in the parsed text, with their contexts."""
    require(path, "queries")
    library = read_contexts()
    rows = [Query.from_dict(row) for row in read_jsonl(path)]
    return [attach_context(q, library) for q in rows if q.evidence and all(e.span is not None for e in q.evidence)]


async def _train(
    stage: Stage, folder: Path, queries: list[Query], validation: list[Query], judge: Judge, guard: Judge | None
) -> TrainingState:
    from rlm_core.grpo.loop import StepLog, Training
    from rlm_core.grpo.parallel import Team
    from rlm_core.grpo.validation import spread
    from tasks.traces import log_rollouts

    params = stage.params
    tell_plan(params)
    curves = Curves(stage, folder)

    def on_start(state: TrainingState) -> None:
        curves.catch_up("train", state.curve)
        curves.catch_up("val", state.validation)

    def on_log(entry: StepLog) -> None:
        if curves.tell(entry.kind, entry.step, entry.figures):
            # Over the step's groups, rather than all trees of its first one.
            limit = params.mlflow.traces_per_step
            trees, verdicts = spread(entry.rollouts, limit), spread(entry.judgements, limit)
            log_rollouts(stage.tracker, trees, verdicts, step=entry.step, limit=limit)

    learner = make_learner(params, Team.join())
    async with open_actor(stage) as actor:
        state = await Training(
            learner=learner,
            actor=actor,
            judge=judge,
            guard_judge=guard,
            queries=queries,
            validation=validation,
            config=params.grpo,
            seed=params.seed,
            folder=folder,
            save_best=lambda best, target: save_model(best, target, like=SFT, dtype=params.model.dtype),
            on_log=on_log,
            on_start=on_start,
            extra={"mlflow_run_id": stage.tracker.run_id},
        ).run()
    save_model(learner.served, folder / "last", like=SFT, dtype=params.model.dtype)
    learner.dismiss()
    return state


def make_learner(params: Params, team: Team) -> Learner:
    """The SFT model, ready to train in this process of the team."""
    import torch
    from transformers import AutoModelForCausalLM

    from rlm_core.grpo.learner import Learner

    model = AutoModelForCausalLM.from_pretrained(SFT, dtype=getattr(torch, params.model.dtype))
    if team.size == 1:
        model = model.to("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return Learner(model, params.grpo, team=team, seed=params.seed)
    except ValueError as error:
        raise StageError(str(error)) from error


def tell_plan(params: Params) -> None:
    """Memory, tokens and seconds to expect, before the first step. On a GPU of unknown rates only the memory is a guide."""
    from transformers import AutoConfig

    from rlm_core.grpo.devices import this_device
    from rlm_core.grpo.plan import plan_step, shape_of
    from rlm_core.grpo.plan_text import render_plan

    shape, device = shape_of(AutoConfig.from_pretrained(SFT)), this_device()
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    plan = plan_step(shape, params, device, processes=processes)
    log.info("grpo: plan\n%s", render_plan(plan, shape, params, device, str(SFT)))


def follow() -> None:
    """A further process of `accelerate launch`: no stage and no run of its own; it trains with the leader."""
    from rlm_core.grpo.parallel import Team

    make_learner(load_params(), Team.join()).follow()


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
            frozen = VllmServer.from_params(params.serve, SFT, dtype=params.model.dtype)
            await also.enter_async_context(frozen)
            renderer = ChatRenderer(load_tokenizer(SFT))
            child_policy = await also.enter_async_context(VllmPolicy(frozen, renderer, stop_ids=stop_ids(SFT)))
        yield ServerActor(server, policy, config, concurrency=params.serve.max_num_seqs, child_policy=child_policy)


def _report(stage: Stage, state: TrainingState, chosen: str, checks: dict[str, dict[str, Any] | None]) -> None:
    first, last = state.curve[0], state.curve[-1]
    record = {
        "steps": state.curve,
        "validation": state.validation,
        "weights": chosen,
        "weights_step": state.best_step if chosen == "best" else state.step,
        "best_val_reward": state.best_reward,
        "stopped_early": state.step < stage.params.grpo.steps,
        "judge": stage.params.judge.kind,
        **checks,
        "params": dump(stage.params.grpo),
    }
    write_json(REPORT, record)
    stage.log_artifact(REPORT)
    figures = {f"final_{k}": last[k] for k in ("reward_mean", "evidence_f1", "answered_share") if k in last}
    stage.log_metrics(figures)
    stage.tracker.log_model(OUT, "grpo", figures, score=state.best_reward)
    if "reward_mean" in first and "reward_mean" in last:
        log.info("grpo: reward %.3f -> %.3f; %s weights published", first["reward_mean"], last["reward_mean"], chosen)


if __name__ == "__main__":
    if int(os.environ.get("RANK", "0")) > 0:
        follow()
    else:
        stage_main("grpo", run)
