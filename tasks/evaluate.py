"""Stage `evaluate`: all arms on the test queries, judged, with intervals and comparisons.

Reads data/queries/{test,val}.jsonl, data/parsed/, models/sft, models/grpo. Writes reports/evaluation.json, reports/plots/ and
reports/rollouts.jsonl (a few trees of each arm for the report). Finished rollouts are kept in .cache/evaluate by arm, query,
sample, weights and limits: a stage that was killed goes on where it was, and one that changes nothing pays for nothing.
"""

from __future__ import annotations

import asyncio
import logging
import random
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rlm_core.evaluation import arm_plots, plots, rows
from rlm_core.evaluation.arms import MODELS, ArmPlan, needs_model, plan_arms, weights_digest
from rlm_core.evaluation.host import VllmHost
from rlm_core.evaluation.record import summarise
from rlm_core.evaluation.retrieval import Bm25Choice, Retriever, provenance
from rlm_core.evaluation.run import Runner
from rlm_core.evaluation.scoring import Sample, failed, score_sample
from rlm_core.evaluation.table import render_table
from rlm_core.files import read_jsonl, write_json, write_jsonl, write_text
from rlm_core.params import Params
from rlm_core.policies import ChatRenderer, ExpertPolicy, load_tokenizer, materialise_model
from rlm_core.records import Judgement, Query, Rollout
from rlm_core.rewards import Judge, judge_all
from rlm_core.rollouts import RolloutConfig, RolloutStore, failures
from tasks.common import Stage, StageError, failed_trees, require, stage_main
from tasks.contexts import read_contexts
from tasks.judging import judge_in_reach, note_on, open_judge

log = logging.getLogger("rlm.stage")

EVALUATION = Path("reports/evaluation.json")
PLOTS = Path("reports/plots")
ROLLOUTS = Path("reports/rollouts.jsonl")
Answers = dict[str, list[Rollout]]
Verdicts = dict[str, list[Judgement | None]]


def run(stage: Stage) -> None:
    params = stage.params
    test, validation = load_queries(params)
    stage.tracker.log_datasets("evaluation", Path("data/queries/test.jsonl"))
    folders = model_folders(params)
    try:
        models = [name for name in MODELS if name in folders]
        plans = plan_arms(params.evaluate.arms, models, params.evaluate.temperatures, params.teach)
    except ValueError as error:
        raise StageError(str(error)) from error
    judge, judge_check = open_judge(stage)
    digests = {name: weights_digest(folder) for name, folder in folders.items()}
    config = RolloutConfig.from_params(params, temperature=params.evaluate.temperature)
    answers, verdicts, choice = asyncio.run(_evaluate(stage, plans, test, validation, config, folders, digests, judge))
    samples = {
        plan.name: score_all(test, answers[plan.name], verdicts[plan.name], params.evaluate.samples_per_query, plan)
        for plan in plans
    }
    retriever = provenance(choice) if choice else None
    evaluation = summarise(
        params, plans, test, samples, judge=judge.name, config=config, digests=digests, retriever=retriever
    )
    evaluation["judge_check"] = judge_check
    evaluation["notes"] = [*note_on(judge_check), *evaluation["notes"]]
    if all(arm["judge_mean"] is None for arm in evaluation["arms"].values()):
        raise StageError(
            f"judge {judge.name} gave no verdict on any answer: see the warnings above; nothing was written"
        )
    in_order = {name: samples[name] for name in evaluation["arms"]}
    write_plots(evaluation, test, in_order)
    write_jsonl(ROLLOUTS, rows.sample_rows(test, {name: answers[name] for name in in_order}, verdicts, in_order))
    write_json(EVALUATION, evaluation)
    publish(stage, evaluation, test, answers, verdicts, in_order)
    log.info("evaluate:\n%s", render_table(evaluation))


def load_queries(params: Params) -> tuple[list[Query], list[Query]]:
    """Test and validation queries with their contexts; at most `evaluate.max_queries` test ones, drawn by the seed."""
    from rlm_core.papers import attach_context

    library = read_contexts()
    splits = []
    for split in ("test", "val"):
        path = require(Path("data/queries") / f"{split}.jsonl", "queries")
        splits.append([Query.from_dict(row) for row in read_jsonl(path)])
    test, validation = splits
    test = [query for query in test if query.gold]
    if not test:
        raise StageError(
            "data/queries/test.jsonl holds no query with evidence; raise queries.test_share or give more papers"
        )
    if (limit := params.evaluate.max_queries) is not None and limit < len(test):
        chosen = set(random.Random(f"evaluate {params.seed}").sample(range(len(test)), limit))
        test = [query for index, query in enumerate(test) if index in chosen]
    return [attach_context(q, library) for q in test], [attach_context(q, library) for q in validation if q.gold]


def model_folders(params: Params) -> dict[str, Path]:
    """The folders of the models that the arms need, the base model's first; the best trained one serves most baselines."""
    names = {arm if isinstance(arm, str) else arm.policy for arm in params.evaluate.arms}
    folders: dict[str, Path] = {}
    if any(needs_model(arm) for arm in params.evaluate.arms):
        folders["base"] = materialise_model(params.model.name, dtype=params.model.dtype)
    for name in ("sft", "grpo"):
        path = Path("models") / name
        if name in names:
            require(path, name)
        if path.exists() and folders:
            folders[name] = path
    return folders


async def _evaluate(
    stage: Stage,
    plans: Sequence[ArmPlan],
    test: Sequence[Query],
    validation: Sequence[Query],
    config: RolloutConfig,
    folders: Mapping[str, Path],
    digests: Mapping[str, str],
    judge: Judge,
) -> tuple[Answers, Verdicts, Bm25Choice | None]:
    params = stage.params
    choice = None
    if any(plan.harness == "bm25" for plan in plans):
        if not validation:
            raise StageError("arm bm25_topk chooses k on data/queries/val.jsonl, which is empty; leave the arm out")
        choice = await asyncio.to_thread(Retriever().choose, validation)
    answers: Answers = {}
    verdicts: Verdicts = {}
    async with make_host(params, folders) as host:
        runner = Runner(
            queries=test,
            config=config,
            samples=params.evaluate.samples_per_query,
            concurrency=params.evaluate.concurrency,
            store=RolloutStore(stage.cache / "rollouts.jsonl"),
            host=host,
            folders=folders,
            digests=digests,
            expert=lambda noise: ExpertPolicy(noise, params.seed, renderer_of(folders)),
            bm25=choice,
        )
        for plan in plans:
            answers[plan.name] = await runner.answer(plan)
            check_endpoint(plan, answers[plan.name])
            with judge_in_reach():
                verdicts[plan.name] = await judge_answers(judge, test, answers[plan.name], params)
    return answers, verdicts, choice


def make_host(params: Params, folders: Mapping[str, Path]) -> VllmHost:
    """Nothing is started before the first model is needed: an evaluation that is all in the cache starts no server."""
    return VllmHost(params, renderer_of(folders))


def renderer_of(folders: Mapping[str, Path]) -> ChatRenderer | None:
    """The base model's; None where no arm has a model, and the expert's tokens are then not counted."""
    return ChatRenderer(load_tokenizer(folders["base"])) if "base" in folders else None


def check_endpoint(plan: ArmPlan, rollouts: Sequence[Rollout]) -> None:
    """An arm whose endpoint answered nothing has no result, rather than a poor one."""
    if plan.endpoint is not None and all(failed(rollout) for rollout in rollouts):
        raise failed_trees(
            f"arm '{plan.name}': all {len(rollouts)} answers failed, the first", failures(rollouts[0])[0]
        )


async def judge_answers(
    judge: Judge, queries: Sequence[Query], rollouts: Sequence[Rollout], params: Params
) -> list[Judgement | None]:
    """A verdict for each rollout; None where the judge or the harness failed."""
    by_id = {query.id: query for query in queries}
    sound = [rollout for rollout in rollouts if not failed(rollout)]
    items = [(by_id[r.query_id].question, r.answer, by_id[r.query_id].gold) for r in sound]
    limit = params.judge.endpoint.max_concurrency if params.judge.endpoint else 1
    found = {r.id: verdict for r, verdict in zip(sound, await judge_all(judge, items, limit), strict=True)}
    return [found.get(rollout.id) for rollout in rollouts]


def score_all(
    queries: Sequence[Query],
    rollouts: Sequence[Rollout],
    verdicts: Sequence[Judgement | None],
    samples: int,
    plan: ArmPlan,
) -> list[Sample]:
    """The samples in the order of the rollouts: all samples of a query, then the next query's."""
    repeated = [query for query in queries for _ in range(samples)]
    return [
        score_sample(query, rollout, verdict, prices=plan.endpoint)
        for query, rollout, verdict in zip(repeated, rollouts, verdicts, strict=True)
    ]


def write_plots(
    evaluation: Mapping[str, Any], queries: Sequence[Query], samples: Mapping[str, Sequence[Sample]]
) -> None:
    """Replace reports/plots: PNGs for people, CSVs for `dvc plots` and for anyone's own plots."""
    work = PLOTS.with_name(f".{PLOTS.name}.part")
    shutil.rmtree(work, ignore_errors=True)
    arms = evaluation["arms"]
    by_id = {query.id: query for query in queries}
    plots.save_png(arm_plots.arms_figure(arms), work / "arms.png")
    plots.save_png(arm_plots.cost_figure(arms), work / "cost.png")
    plots.save_png(arm_plots.tiers_figure(arms), work / "tiers.png")
    tables = {
        "arms": [rows.arm_row(name, arm) for name, arm in arms.items()],
        "tiers": rows.tier_rows(arms),
        "samples": [rows.sample_row(arm, s, by_id[s.query_id]) for arm in samples for s in samples[arm]],
    }
    for name, table in tables.items():
        write_text(work / f"{name}.csv", rows.to_csv(table))
    shutil.rmtree(PLOTS, ignore_errors=True)
    work.rename(PLOTS)


def publish(
    stage: Stage,
    evaluation: Mapping[str, Any],
    queries: Sequence[Query],
    answers: Answers,
    verdicts: Verdicts,
    samples: Mapping[str, Sequence[Sample]],
) -> None:
    """The same figures to MLflow: metrics and tables of arms, comparisons, failures and answers, and a few trees of each
    arm as traces with the judge's feedback and the evidence figures beside it."""
    from tasks.traces import log_rollouts

    for name, arm in evaluation["arms"].items():
        figures = {k: v for k, v in arm.items() if isinstance(v, int | float) and not isinstance(v, bool)}
        stage.tracker.log_metrics({f"{name}.{key}": float(value) for key, value in figures.items()})
        if (folder := Path("models") / name).exists():
            stage.tracker.log_model_metrics(folder, {key: float(value) for key, value in figures.items()})
    stage.log_metrics({"queries": evaluation["n"]})
    for path in (EVALUATION, PLOTS, ROLLOUTS):
        stage.log_artifact(path)
    arms = evaluation["arms"]
    log_table(stage, "arms", [rows.arm_row(name, arm) for name, arm in arms.items()])
    log_table(stage, "comparisons", rows.comparison_rows(evaluation["comparisons"]))
    log_table(stage, "failures", rows.failure_rows(arms))
    log_table(stage, "answers", rows.answer_rows(queries, answers, samples))
    limit = stage.params.mlflow.traces_per_step
    for name in arms:
        log_rollouts(
            stage.tracker,
            answers[name],
            verdicts[name],
            limit=limit,
            figures=[guard_figures(sample) for sample in samples[name]],
            tags={"arm": name},
        )


def guard_figures(sample: Sample) -> dict[str, float | bool]:
    """What is computed beside the judge's verdict; nothing for a sample that the harness failed."""
    if sample.overlap is None or sample.papers is None or sample.by_paper is None:
        return {}
    figures = {"evidence_precision": sample.overlap.precision, "evidence_recall": sample.overlap.recall}
    figures |= {"evidence_f1": sample.overlap.f1, "macro_f1": sample.by_paper.f1, "paper_f1": sample.papers.f1}
    return {**figures, "format": bool(sample.ended_in_answer)}


def log_table(stage: Stage, name: str, table: Sequence[Mapping[str, Any]]) -> None:
    """Rows as an MLflow table, which its UI compares between runs; none for no rows."""
    if table:
        columns = {key: [row.get(key) for row in table] for key in dict.fromkeys(key for row in table for key in row)}
        stage.tracker.log_table(columns, f"{name}.json")


if __name__ == "__main__":
    stage_main("evaluate", run)
