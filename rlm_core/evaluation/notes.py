"""What a reader must know before believing the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlm_core.evaluation.comparisons import clusters_of
from rlm_core.evaluation.scoring import PASS_REWARD
from rlm_core.records import Query

ENOUGH_ITEMS = 128
ENOUGH_CLUSTERS = 10
MOST_UNSCORED = 0.05


def notes_on(
    queries: Sequence[Query],
    arms: Mapping[str, Mapping[str, Any]],
    *,
    judge: str,
    samples_per_query: int,
    least_p: Mapping[str, float] | None = None,
) -> list[str]:
    """Notes, the gravest first. `least_p`: see `Summary.least_p`."""
    notes = []
    if len(queries) < ENOUGH_ITEMS:
        notes.append(
            f"ONLY {len(queries)} TEST QUERIES: at least {ENOUGH_ITEMS} are needed to tell arms apart; "
            "read this table as a trial run, not as a result."
        )
    clusters = len(set(clusters_of(queries)))
    if clusters < ENOUGH_CLUSTERS:
        notes.append(
            f"The evidence of all queries lies in {clusters} set(s) of papers: intervals over so few are rough "
            "and may be too narrow."
        )
    for family, least in (least_p or {}).items():
        if least > 0.05:
            notes.append(
                f"Comparisons of {family}: with {clusters} sets of papers no pair can get p under {least:.3f} after Holm; "
                "more papers in the test split are needed to call a difference clear."
            )
    if judge == "lexical":
        notes.append(
            "The judge is lexical: it compares letters with the gold passages, reads no meaning, "
            "and gives 0.1 to an empty answer."
        )
    for name, arm in arms.items():
        if arm.get("actor") == "expert":
            notes.append(f"The arm {name} is a scripted program, not a model.")
    if samples_per_query == 1:
        notes.append("One sample a query: pass@k is pass@1.")
    for name, arm in arms.items():
        if arm["samples"] and arm["unscored"] / arm["samples"] > MOST_UNSCORED:
            notes.append(
                f"Arm {name}: {arm['unscored']} of {arm['samples']} samples could not be scored "
                "and are left out of its means."
            )
    notes.append(f"A sample passes with a judge reward of {PASS_REWARD} or more.")
    return notes


def sharpening_notes(comparisons: Sequence[Mapping[str, Any]]) -> list[str]:
    """How much of a trained model's gain is left at further temperatures, by judge.

    A gain that shrinks when both models are asked greedily was, so far, a sharper distribution rather than new skill.
    """
    judged = [row for row in comparisons if row["metric"] == "judge"]
    gains = {(row["a"], row["b"]): row["difference"] for row in judged if row["family"] == "training"}
    notes = []
    for (a, b), gain in gains.items():
        left = [
            f"{row['difference']:+.3f} at {row['a'].removeprefix(f'{a}_t')}"
            for row in judged
            if row["family"] == "sharpening" and row["a"].startswith(f"{a}_t") and row["b"].startswith(f"{b}_t")
        ]
        if left:
            notes.append(
                f"{a} over {b} by judge: {gain:+.3f} at the evaluation's temperature, {', '.join(left)} "
                "(0 is greedy). What is gone at lower temperatures was a sharper distribution, not a new skill."
            )
    return notes
