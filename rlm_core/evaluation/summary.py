"""The figures of each arm and the comparisons between arms: `reports/evaluation.json`.

Per query, samples are averaged; intervals and comparisons then resample clusters of queries (those whose evidence lies in
the same papers). Unscored samples are left out and counted beside.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rlm_core.evaluation.scoring import PASS_REWARD, Cause, Sample
from rlm_core.evaluation.statistics import bootstrap_ci, holm, paired_difference, pass_at_k
from rlm_core.records import Query

ENOUGH_ITEMS = 128
ENOUGH_CLUSTERS = 10
MOST_UNSCORED = 0.05

Scores = list[float | None]
Ci = tuple[float, float]


class Summary:
    """Summarises the samples of all arms over the same queries."""

    def __init__(
        self, queries: Sequence[Query], *, confidence: float = 0.95, resamples: int = 2000, seed: int = 0
    ) -> None:
        self.queries = queries
        self.clusters = clusters_of(queries)
        self._options: dict[str, Any] = {"confidence": confidence, "samples": resamples, "seed": seed}

    def arm(self, samples: Sequence[Sample]) -> dict[str, Any]:
        """One arm's figures. Means are over queries with a score; None where no query has one."""
        rewards = self.per_query(samples, lambda s: s.reward)
        f1s = self.per_query(samples, lambda s: s.overlap.f1 if s.overlap else None)
        k = max((sum(1 for _ in group) for group in _by_query(samples).values()), default=1)
        return {
            "judge_mean": mean(rewards),
            "judge_ci95": self._ci(rewards),
            "f1_mean": mean(f1s),
            "format_success": mean(self.per_query(samples, lambda s: _number(s.ended_in_answer))),
            "pass_at_k": mean(self._pass_at(samples, k)),
            "seconds_mean": mean([s.seconds for s in samples]),
            "tokens_mean": mean([s.tokens for s in samples]),
            "n": sum(1 for reward in rewards if reward is not None),
            "k": k,
            "pass_at_1": mean(self._pass_at(samples, 1)),
            "f1_ci95": self._ci(f1s),
            "judge_precision_mean": mean(
                self.per_query(samples, lambda s: float(s.judgement.precision) if s.judgement else None)
            ),
            "judge_recall_mean": mean(
                self.per_query(samples, lambda s: float(s.judgement.recall) if s.judgement else None)
            ),
            "evidence_precision_mean": mean(
                self.per_query(samples, lambda s: s.overlap.precision if s.overlap else None)
            ),
            "evidence_recall_mean": mean(self.per_query(samples, lambda s: s.overlap.recall if s.overlap else None)),
            "paper_f1_mean": mean(self.per_query(samples, lambda s: s.paper_f1)),
            "turns_mean": mean([s.turns for s in samples]),
            "children_mean": mean([s.children for s in samples]),
            "completion_tokens_mean": mean([s.completion_tokens for s in samples]),
            "unscored": sum(1 for s in samples if s.judgement is None),
            "samples": len(samples),
            "by_tier": self._by(samples, lambda q: q.tier),
            "by_kind": self._by(samples, lambda q: q.kind),
            "failures": failures_of(samples),
            "turn_errors": dict(sorted(_sum_counts(s.turn_errors for s in samples).items())),
        }

    def per_query(self, samples: Iterable[Sample], figure: Callable[[Sample], float | None]) -> Scores:
        """The mean of a figure over each query's scored samples, in the order of the queries; None where there is none."""
        groups = _by_query(samples)
        return [mean([figure(s) for s in groups.get(query.id, ())]) for query in self.queries]

    def compare(self, arms: Mapping[str, Sequence[Sample]], pairs: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
        """Paired differences of `pairs` by judge and by evidence F1; p-values are Holm-adjusted within each metric."""
        rows: list[dict[str, Any]] = []
        figures: dict[str, Callable[[Sample], float | None]] = {
            "judge": lambda s: s.reward,
            "f1": lambda s: s.overlap.f1 if s.overlap else None,
        }
        for metric, figure in figures.items():
            found = [row for a, b in pairs if (row := self._compared(arms, a, b, metric, figure)) is not None]
            for row, adjusted in zip(found, holm([row["p_value"] for row in found]), strict=True):
                rows.append({**row, "p_holm": adjusted})
        return rows

    def _compared(
        self,
        arms: Mapping[str, Sequence[Sample]],
        a: str,
        b: str,
        metric: str,
        figure: Callable[[Sample], float | None],
    ) -> dict[str, Any] | None:
        first, second = self.per_query(arms[a], figure), self.per_query(arms[b], figure)
        if not any(x is not None and y is not None for x, y in zip(first, second, strict=True)):
            return None
        result = paired_difference(first, second, clusters=self.clusters, **self._options)
        return {
            "a": a,
            "b": b,
            "metric": metric,
            "difference": result.difference,
            "ci95": list(result.ci),
            "p_value": result.p_value,
            "effect_size": result.effect_size,
            "wins": result.wins,
            "losses": result.losses,
            "ties": result.ties,
            "n": result.n,
        }

    def _pass_at(self, samples: Sequence[Sample], k: int) -> Scores:
        """pass@k of each query; None where fewer than k samples are scored."""
        groups = _by_query(samples)
        scores: Scores = []
        for query in self.queries:
            passed = [s.passed for s in groups.get(query.id, ()) if s.passed is not None]
            scores.append(pass_at_k(len(passed), sum(passed), k) if len(passed) >= k else None)
        return scores

    def _by(self, samples: Sequence[Sample], key: Callable[[Query], str]) -> dict[str, dict[str, Any]]:
        rewards = self.per_query(samples, lambda s: s.reward)
        f1s = self.per_query(samples, lambda s: s.overlap.f1 if s.overlap else None)
        names = [key(query) for query in self.queries]
        table = {}
        for name in sorted(set(names)):
            here = [i for i, other in enumerate(names) if other == name]
            table[name] = {
                "n": sum(1 for i in here if rewards[i] is not None),
                "judge_mean": mean([rewards[i] for i in here]),
                "judge_ci95": self._ci([rewards[i] for i in here], [self.clusters[i] for i in here]),
                "f1_mean": mean([f1s[i] for i in here]),
            }
        return table

    def _ci(self, scores: Scores, clusters: Sequence[str] | None = None) -> list[float] | None:
        if all(score is None for score in scores):
            return None
        used = self.clusters if clusters is None else clusters
        scored = {cluster for cluster, score in zip(used, scores, strict=True) if score is not None}
        return list(bootstrap_ci(scores, clusters=used if len(scored) > 1 else None, **self._options))


def clusters_of(queries: Sequence[Query]) -> list[str]:
    """The unit of resampling of each query: the papers that hold its evidence."""
    return ["+".join(sorted({e.paper_id for e in query.evidence})) or query.group_id or query.id for query in queries]


def comparisons_of(arms: Sequence[str]) -> list[tuple[str, str]]:
    """The pairs that are tested, fixed before any score is seen.

    The most trained arm against each other one, and `sft` against `base`.
    """
    main = next((arm for arm in ("grpo", "sft", "base") if arm in arms), None)
    if main is None:
        return []
    pairs = [(main, other) for other in arms if other != main]
    if main == "grpo" and {"sft", "base"} <= set(arms):
        pairs.append(("sft", "base"))
    return pairs


def failures_of(samples: Iterable[Sample]) -> dict[str, dict[str, Any]]:
    """How often each cause was met, with the first rollout as an example."""
    found: dict[str, dict[str, Any]] = {}
    for sample in samples:
        if sample.cause is not Cause.NONE:
            row = found.setdefault(str(sample.cause), {"count": 0, "example": sample.rollout_id})
            row["count"] += 1
    return dict(sorted(found.items(), key=lambda item: -item[1]["count"]))


def notes_on(
    queries: Sequence[Query], arms: Mapping[str, Mapping[str, Any]], *, judge: str, samples_per_query: int
) -> list[str]:
    """What a reader must know before believing the table."""
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
    if judge == "lexical":
        notes.append(
            "The judge is lexical: it compares letters with the gold passages, reads no meaning, "
            "and gives 0.1 to an empty answer."
        )
    if "expert" in arms:
        notes.append("The arm expert is a scripted program, not a model.")
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


def mean(values: Iterable[float | None]) -> float | None:
    """Mean of the values that there are; None without any."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _number(value: bool | None) -> float | None:
    return None if value is None else float(value)


def _by_query(samples: Iterable[Sample]) -> dict[str, list[Sample]]:
    groups: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        groups[sample.query_id].append(sample)
    return groups


def _sum_counts(counts: Iterable[Mapping[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return total
