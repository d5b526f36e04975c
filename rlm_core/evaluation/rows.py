"""Rows of the files that an evaluation leaves: trees for the report, tables for plots, for MLflow and for `dvc plots`."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rlm_core.evaluation.scoring import Sample
from rlm_core.records import Judgement, Query, Rollout, Turn

SHOWN_QUERIES = 12
"""Queries whose trees are kept for the report, one sample an arm: by order, by gain and by loss, a third each."""

Rows = list[dict[str, Any]]


class Shown(NamedTuple):
    """A query whose trees are shown, and the rule that chose it."""

    query: Query
    why: str


def sample_rows(
    queries: Sequence[Query],
    answers: Mapping[str, Sequence[Rollout]],
    verdicts: Mapping[str, Sequence[Judgement | None]],
    samples: Mapping[str, Sequence[Sample]],
) -> Rows:
    """Trees for the report: the first sample of the shown queries in every arm.

    Token ids and logprobs stay behind: a page shows text.
    """
    rows = []
    for query, why in shown_queries(queries, samples):
        for arm, rollouts in answers.items():
            index = next(i for i, rollout in enumerate(rollouts) if rollout.query_id == query.id)
            judgement, sample = verdicts[arm][index], samples[arm][index]
            rows.append(
                {
                    "arm": arm,
                    "query_id": query.id,
                    "why": why,
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


def shown_queries(queries: Sequence[Query], samples: Mapping[str, Sequence[Sample]]) -> list[Shown]:
    """By order, multi-paper and single-paper ones in turn; then where the last trained arm gained most over the one before,
    and where it lost most. Without two such arms, by order alone."""
    in_turn = _in_turn(queries)
    trained = [arm for arm in ("grpo", "sft", "base") if arm in samples]
    if len(trained) < 2:
        return [Shown(query, "by order") for query in in_turn[:SHOWN_QUERIES]]
    after, before = trained[:2]
    third = SHOWN_QUERIES // 3
    chosen = {query.id: Shown(query, "by order") for query in in_turn[:third]}
    gains = _gains(samples[after], samples[before])
    ranked = sorted((q for q in in_turn if q.id in gains), key=lambda q: -gains[q.id])
    up = [q for q in ranked if gains[q.id] > 0 and q.id not in chosen][:third]
    down = [q for q in reversed(ranked) if gains[q.id] < 0 and q.id not in chosen][:third]
    for group, why in ((up, f"largest gain of {after} over {before}"), (down, f"largest loss of {after} to {before}")):
        chosen |= {query.id: Shown(query, why) for query in group}
    rest = [query for query in in_turn if query.id not in chosen][: SHOWN_QUERIES - len(chosen)]
    return [*chosen.values(), *(Shown(query, "by order") for query in rest)]


def _in_turn(queries: Sequence[Query]) -> list[Query]:
    kinds = [[q for q in queries if q.kind == kind] for kind in ("multi", "single")]
    mixed = [query for pair in zip(*kinds, strict=False) for query in pair]
    taken = {query.id for query in mixed}
    return [*mixed, *(query for query in queries if query.id not in taken)]


def _gains(after: Sequence[Sample], before: Sequence[Sample]) -> dict[str, float]:
    """Reward of the first sample after less before, by query, where both have one."""
    first = {s.query_id: s.reward for s in reversed(before)}
    then = {s.query_id: s.reward for s in reversed(after)}
    return {key: a - b for key, a in then.items() if a is not None and (b := first.get(key)) is not None}


def without_tokens(rollout: Rollout) -> Rollout:
    def bare(turn: Turn) -> Turn:
        return dataclasses.replace(turn, prompt_ids=(), completion_ids=(), logprobs=())

    return dataclasses.replace(
        rollout,
        turns=tuple(bare(turn) for turn in rollout.turns),
        children=tuple(without_tokens(child) for child in rollout.children),
    )


def arm_row(name: str, arm: Mapping[str, Any]) -> dict[str, Any]:
    """An arm's figures in one flat row; pass@k by k."""
    low, high = arm["judge_ci95"] or (None, None)
    f1_low, f1_high = arm.get("f1_ci95") or (None, None)
    macro_low, macro_high = arm.get("macro_f1_ci95") or (None, None)
    plain = {key: value for key, value in arm.items() if not isinstance(value, dict | list)}
    passed = {f"pass_at_{k}": value for k, value in arm.get("pass_at", {}).items()}
    bounds = {"judge_low": low, "judge_high": high, "f1_low": f1_low, "f1_high": f1_high}
    bounds |= {"macro_f1_low": macro_low, "macro_f1_high": macro_high}
    return {"arm": name, **bounds, **plain, **passed}


def tier_rows(arms: Mapping[str, Mapping[str, Any]]) -> Rows:
    """Figures by tier and by kind of question."""
    return [
        {"arm": name, "by": by, "tier": tier, **{key: row.get(key) for key in ("n", "judge_mean", "f1_mean")}}
        for name, arm in arms.items()
        for by in ("tier", "kind")
        for tier, row in arm[f"by_{by}"].items()
    ]


def failure_rows(arms: Mapping[str, Mapping[str, Any]]) -> Rows:
    """Failures by cause with their examples."""
    return [
        {"arm": name, "cause": cause, **row} for name, arm in arms.items() for cause, row in arm["failures"].items()
    ]


def comparison_rows(comparisons: Sequence[Mapping[str, Any]]) -> Rows:
    """Comparisons with their interval in two columns."""
    return [
        {**{k: v for k, v in row.items() if k != "ci95"}, "low": row["ci95"][0], "high": row["ci95"][1]}
        for row in comparisons
    ]


def sample_row(arm: str, sample: Sample, query: Query) -> dict[str, Any]:
    """All figures of one sample."""
    judgement, overlap, papers, by_paper = sample.judgement, sample.overlap, sample.papers, sample.by_paper
    return {
        "arm": arm,
        "query_id": sample.query_id,
        "sample": sample.sample,
        "judge": sample.reward,
        "f1": overlap.f1 if overlap else None,
        "cause": str(sample.cause),
        "judge_precision": judgement.precision if judgement else None,
        "judge_recall": judgement.recall if judgement else None,
        "precision": overlap.precision if overlap else None,
        "recall": overlap.recall if overlap else None,
        "macro_f1": by_paper.f1 if by_paper else None,
        "macro_precision": by_paper.precision if by_paper else None,
        "macro_recall": by_paper.recall if by_paper else None,
        "paper_precision": papers.precision if papers else None,
        "paper_recall": papers.recall if papers else None,
        "format": sample.ended_in_answer,
        "passed": sample.passed,
        "tokens": sample.tokens,
        "prompt_tokens": sample.prompt_tokens,
        "completion_tokens": sample.completion_tokens,
        "cost": sample.cost,
        "seconds": round(sample.seconds, 3),
        "turns": sample.turns,
        "children": sample.children,
        "tier": query.tier,
        "kind": query.kind,
    }


ANSWER_CHARS = 500
"""Of an answer in the table of answers."""


def answer_rows(
    queries: Sequence[Query], answers: Mapping[str, Sequence[Rollout]], samples: Mapping[str, Sequence[Sample]]
) -> Rows:
    """Every sample with its question, the head of its answer and the judge's reason: for reading side by side."""
    by_id = {query.id: query for query in queries}
    return [
        {
            **sample_row(arm, sample, by_id[sample.query_id]),
            "question": by_id[sample.query_id].question,
            "answer": json.dumps(rollout.answer, ensure_ascii=False)[:ANSWER_CHARS],
            "gold": json.dumps(by_id[sample.query_id].gold, ensure_ascii=False)[:ANSWER_CHARS],
            "reason": sample.judgement.rationale if sample.judgement else "",
            "detail": sample.detail,
        }
        for arm in samples
        for sample, rollout in zip(samples[arm], answers[arm], strict=True)
    ]


def to_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as CSV text under the columns of all of them, in the order in which they are met."""
    out = io.StringIO()
    columns = list(dict.fromkeys(key for row in rows for key in row))
    writer = csv.DictWriter(out, fieldnames=columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()
