"""Finished cells -> the record of `reports/ablation.json`: means, paired differences, and what they allow to be said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rlm_core.ablation.statistics import Estimate, crossed_interval, paired_interval
from rlm_core.ablation.variants import COMPARED, PLANS
from rlm_core.params import Params, Variant

SCORES = ("reward", "reward_greedy", "evidence_f1")
"""What a cell keeps of each question: mean judge reward of its samples, that of a greedy rollout, and mean evidence F1."""

Cell = Mapping[str, Any]
"""`result.json` of a cell: variant, seed, sampled_tokens, updates, questions {id: {score: value or None}}."""


def summarise(cells: Sequence[Cell], params: Params, *, judge: str) -> dict[str, Any]:
    """The record. Comparisons use the seeds that both variants have finished; raises `ValueError` without a cell."""
    if not cells:
        raise ValueError("no cell is finished; run `make ablation`")
    by_variant: dict[Variant, dict[int, Cell]] = {}
    for cell in cells:
        by_variant.setdefault(cell["variant"], {})[cell["seed"]] = cell
    questions = sorted({question for cell in cells for question in cell["questions"]})
    rows = {name: _row(by_variant[name], questions) for name in PLANS if name in by_variant}
    compared = [
        _comparison(a, b, by_variant[a], by_variant[b], questions)
        for a, b in COMPARED
        if a in by_variant and b in by_variant and set(by_variant[a]) & set(by_variant[b])
    ]
    return {
        "judge": judge,
        "model": params.model.name,
        "kind": params.ablation.kind,
        "questions": len(questions),
        "samples_per_query": params.ablation.samples_per_query,
        "sampled_tokens": params.ablation.sampled_tokens,
        "missing": [
            [name, seed]
            for name in params.ablation.variants
            for seed in params.ablation.seeds
            if seed not in by_variant.get(name, {})
        ],
        "variants": rows,
        "comparisons": compared,
        "conclusions": [conclusion(row) for row in compared],
        "limits": limits(cells, len(questions), len(compared), params, judge),
    }


def table_of(cells: Mapping[int, Cell], seeds: Sequence[int], questions: Sequence[str], score: str) -> np.ndarray:
    """[S, Q] of one score; NaN where the judge or the harness gave none."""
    values = [[cells[seed]["questions"].get(q, {}).get(score) for q in questions] for seed in seeds]
    return np.array([[np.nan if v is None else v for v in row] for row in values], dtype=float)


def _row(cells: Mapping[int, Cell], questions: Sequence[str]) -> dict[str, Any]:
    seeds = sorted(cells)
    name = cells[seeds[0]]["variant"]
    row: dict[str, Any] = {"title": PLANS[name].title, "seeds": seeds}
    for score in SCORES:
        table = table_of(cells, seeds, questions, score)
        row[score] = _plain(crossed_interval(table)) if np.isfinite(table).any() else None
        row[f"{score}_by_seed"] = [float(np.nanmean(line)) if np.isfinite(line).any() else None for line in table]
    for figure in ("sampled_tokens", "updates", "train_seconds"):
        row[figure] = [cells[seed][figure] for seed in seeds]
    return row


def _comparison(
    a: Variant, b: Variant, first: Mapping[int, Cell], second: Mapping[int, Cell], questions: Sequence[str]
) -> dict[str, Any]:
    seeds = sorted(set(first) & set(second))
    found: dict[str, Any] = {"a": a, "b": b, "seeds": seeds}
    for score in SCORES:
        tables = [table_of(cells, seeds, questions, score) for cells in (first, second)]
        comparable = np.isfinite(tables[0] - tables[1]).any()
        found[score] = _plain(paired_interval(*tables)) if comparable else None
    return found


def conclusion(row: Mapping[str, Any]) -> str:
    """One sentence on one comparison, no stronger than its interval."""
    a, b, estimate = row["a"], row["b"], row["reward"]
    if estimate is None:
        return f"{a} against {b}: no question has a score for both."
    mean, low, high = estimate["mean"], estimate["low"], estimate["high"]
    figures = f"{mean:+.3f} [{low:+.3f}, {high:+.3f}]"
    if low > 0:
        return f"{a} scores above {b}: {figures}."
    if high < 0:
        return f"{a} scores below {b}: {figures}."
    return (
        f"{a} and {b} cannot be told apart: {figures}. A difference of up to {max(abs(low), abs(high)):.3f} either way "
        "is not excluded."
    )


def limits(cells: Sequence[Cell], questions: int, comparisons: int, params: Params, judge: str) -> list[str]:
    """What the figures do not show, as far as it follows from how they were made."""
    seeds = {cell["seed"] for cell in cells}
    found = [
        f"One model ({params.model.name}), one SFT checkpoint, one budget ({params.ablation.sampled_tokens:,} sampled tokens a "
        "cell), one set of hyperparameters, tuned for none of the variants: a variant may be better with its own.",
        f"{questions} {params.ablation.kind}-paper questions. Questions about the same papers are not independent, so "
        "intervals are narrower than they should be.",
        f"{comparisons} comparisons at 95 % each, not adjusted: without any true difference, expect {comparisons / 20:.2g} "
        "false ones a sweep.",
    ]
    if len(seeds) < 2:
        found.append("One seed: the intervals hold for these trained models, not for the ways of training.")
    elif len(seeds) < 6:
        found.append(
            f"{len(seeds)} seeds tell little about the spread between runs; take an interval near 0 for a tie."
        )
    if judge == "lexical":
        found.append("The judge is lexical: it compares letters with the gold passages, and reads nothing.")
    children = [cell["children_mean"] for cell in cells if cell["children_mean"] is not None]
    if children and max(children) < 0.5:
        found.append(
            f"Test trees have {max(children):.2f} children at most on average: where no children are asked, ways to credit "
            "them cannot differ."
        )
    return found


def _plain(estimate: Estimate) -> dict[str, float]:
    return {"mean": estimate.mean, "low": estimate.low, "high": estimate.high}
