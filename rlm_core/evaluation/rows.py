"""Rows of the files that an evaluation leaves: trees for the report, tables for plots."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from rlm_core.evaluation.scoring import Sample
from rlm_core.records import Judgement, Query, Rollout, Turn

SHOWN_QUERIES = 6
"""Queries whose trees are kept for the report, one sample an arm."""


def sample_rows(
    queries: Sequence[Query],
    answers: Mapping[str, Sequence[Rollout]],
    verdicts: Mapping[str, Sequence[Judgement | None]],
    samples: Mapping[str, Sequence[Sample]],
) -> list[dict[str, Any]]:
    """Trees for the report: the first sample of a few queries in every arm, chosen by kind and order, never by score.

    Token ids and logprobs stay behind: a page shows text.
    """
    rows = []
    for query in shown_queries(queries):
        for arm, rollouts in answers.items():
            index = next(i for i, rollout in enumerate(rollouts) if rollout.query_id == query.id)
            judgement, sample = verdicts[arm][index], samples[arm][index]
            rows.append(
                {
                    "arm": arm,
                    "query_id": query.id,
                    "kind": query.kind,
                    "tier": query.tier,
                    "question": query.question,
                    "gold": [{"paper_id": e.paper_id, "text": e.text} for e in query.evidence],
                    "judgement": judgement.to_dict() if judgement else None,
                    "f1": sample.overlap.f1 if sample.overlap else None,
                    "cause": str(sample.cause),
                    "rollout": without_tokens(rollouts[index]).to_dict(),
                }
            )
    return rows


def shown_queries(queries: Sequence[Query]) -> list[Query]:
    """Multi-paper and single-paper queries in turn, as far as there are."""
    kinds = [[q for q in queries if q.kind == kind] for kind in ("multi", "single")]
    mixed = [query for pair in zip(*kinds, strict=False) for query in pair]
    rest = [query for query in queries if query not in mixed]
    return [*mixed, *rest][:SHOWN_QUERIES]


def without_tokens(rollout: Rollout) -> Rollout:
    def bare(turn: Turn) -> Turn:
        return dataclasses.replace(turn, prompt_ids=(), completion_ids=(), logprobs=())

    return dataclasses.replace(
        rollout,
        turns=tuple(bare(turn) for turn in rollout.turns),
        children=tuple(without_tokens(child) for child in rollout.children),
    )


def arm_row(name: str, arm: Mapping[str, Any]) -> dict[str, Any]:
    low, high = arm["judge_ci95"] or (None, None)
    plain = {key: value for key, value in arm.items() if not isinstance(value, dict | list)}
    return {"arm": name, "judge_low": low, "judge_high": high, **plain}


def tier_rows(arms: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"arm": name, "tier": tier, "n": row["n"], "judge_mean": row["judge_mean"], "f1_mean": row["f1_mean"]}
        for name, arm in arms.items()
        for tier, row in arm["by_tier"].items()
    ]


def sample_row(arm: str, sample: Sample) -> dict[str, Any]:
    return {
        "arm": arm,
        "query_id": sample.query_id,
        "sample": sample.sample,
        "judge": sample.reward,
        "f1": sample.overlap.f1 if sample.overlap else None,
        "cause": str(sample.cause),
        "tokens": sample.tokens,
        "seconds": round(sample.seconds, 3),
        "turns": sample.turns,
        "children": sample.children,
    }
