"""The figures of each arm and the comparisons between arms: `reports/evaluation.json`.

Per query, samples are averaged; intervals and comparisons then resample clusters of queries (those whose evidence lies in
the same papers). Unscored samples are left out and counted beside.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rlm_core.evaluation.comparisons import Pair, clusters_of
from rlm_core.evaluation.scoring import Cause, Sample
from rlm_core.evaluation.statistics import EXACT_FLIPS, bootstrap_ci, holm, paired_difference, pass_at_k
from rlm_core.records import Query

Scores = list[float | None]
Figure = Callable[[Sample], float | None]


def _f1(sample: Sample) -> float | None:
    return sample.overlap.f1 if sample.overlap else None


def _macro_f1(sample: Sample) -> float | None:
    return sample.by_paper.f1 if sample.by_paper else None


_FIGURES: dict[str, Figure] = {
    "judge_precision_mean": lambda s: float(s.judgement.precision) if s.judgement else None,
    "judge_recall_mean": lambda s: float(s.judgement.recall) if s.judgement else None,
    "evidence_precision_mean": lambda s: s.overlap.precision if s.overlap else None,
    "evidence_recall_mean": lambda s: s.overlap.recall if s.overlap else None,
    "macro_f1_mean": _macro_f1,
    "macro_precision_mean": lambda s: s.by_paper.precision if s.by_paper else None,
    "macro_recall_mean": lambda s: s.by_paper.recall if s.by_paper else None,
    "paper_f1_mean": lambda s: s.papers.f1 if s.papers else None,
    "paper_precision_mean": lambda s: s.papers.precision if s.papers else None,
    "paper_recall_mean": lambda s: s.papers.recall if s.papers else None,
}
"""Means over queries of their samples' means. macro: evidence by paper, see `by_paper`; paper: the choice of papers."""


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
        f1s = self.per_query(samples, _f1)
        k = max((len(group) for group in _by_query(samples).values()), default=1)
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
            "pass_at": {str(count): mean(self._pass_at(samples, count)) for count in counts_up_to(k)},
            "f1_ci95": self._ci(f1s),
            "macro_f1_ci95": self._ci(self.per_query(samples, _macro_f1)),
            **{name: mean(self.per_query(samples, figure)) for name, figure in _FIGURES.items()},
            "turns_mean": mean([s.turns for s in samples]),
            "children_mean": mean([s.children for s in samples]),
            "prompt_tokens_mean": mean([s.prompt_tokens for s in samples]),
            "completion_tokens_mean": mean([s.completion_tokens for s in samples]),
            "tokens_p95": quantile([s.tokens for s in samples], 0.95),
            "seconds_p95": quantile([s.seconds for s in samples], 0.95),
            "cost_mean": mean([s.cost for s in samples]),
            "cost_total": sum(costs) if (costs := [s.cost for s in samples if s.cost is not None]) else None,
            "unscored": sum(1 for s in samples if s.judgement is None),
            "samples": len(samples),
            "by_tier": self._by(samples, lambda q: q.tier),
            "by_kind": self._by(samples, lambda q: q.kind),
            "failures": failures_of(samples),
            "turn_errors": dict(sorted(_sum_counts(s.turn_errors for s in samples).items())),
        }

    def per_query(self, samples: Iterable[Sample], figure: Figure) -> Scores:
        """The mean of a figure over each query's scored samples, in the order of the queries; None where there is none."""
        groups = _by_query(samples)
        return [mean([figure(s) for s in groups.get(query.id, ())]) for query in self.queries]

    def compare(self, arms: Mapping[str, Sequence[Sample]], pairs: Sequence[Pair]) -> list[dict[str, Any]]:
        """Paired differences of `pairs` by judge and by evidence F1; p-values are Holm-adjusted within metric and family."""
        rows: list[dict[str, Any]] = []
        figures: dict[str, Figure] = {"judge": lambda s: s.reward, "f1": _f1}
        for metric, figure in figures.items():
            for family in dict.fromkeys(pair.family for pair in pairs):
                members = [pair for pair in pairs if pair.family == family]
                found = [row for pair in members if (row := self._compared(arms, pair, metric, figure)) is not None]
                for row, adjusted in zip(found, holm([row["p_value"] for row in found]), strict=True):
                    rows.append({**row, "p_holm": adjusted})
        return rows

    def least_p(self, pairs: Sequence[Pair]) -> dict[str, float]:
        """The smallest p-value after Holm that a pair of each family can get: all sets of papers differing one way."""
        units = len(set(self.clusters))
        least = 2.0 ** (1 - units) if units <= EXACT_FLIPS else 0.0
        sizes = Counter(pair.family for pair in pairs)
        return {family: min(1.0, size * least) for family, size in sizes.items()}

    def _compared(
        self,
        arms: Mapping[str, Sequence[Sample]],
        pair: Pair,
        metric: str,
        figure: Figure,
    ) -> dict[str, Any] | None:
        first, second = self.per_query(arms[pair.a], figure), self.per_query(arms[pair.b], figure)
        if not any(x is not None and y is not None for x, y in zip(first, second, strict=True)):
            return None
        result = paired_difference(first, second, clusters=self.clusters, **self._options)
        return {
            "a": pair.a,
            "b": pair.b,
            "family": pair.family,
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
        f1s = self.per_query(samples, _f1)
        tokens = self.per_query(samples, lambda s: float(s.tokens))
        names = [key(query) for query in self.queries]
        table = {}
        for name in sorted(set(names)):
            here = [i for i, other in enumerate(names) if other == name]
            table[name] = {
                "n": sum(1 for i in here if rewards[i] is not None),
                "judge_mean": mean([rewards[i] for i in here]),
                "judge_ci95": self._ci([rewards[i] for i in here], [self.clusters[i] for i in here]),
                "f1_mean": mean([f1s[i] for i in here]),
                "tokens_mean": mean([tokens[i] for i in here]),
            }
        return table

    def _ci(self, scores: Scores, clusters: Sequence[str] | None = None) -> list[float] | None:
        if all(score is None for score in scores):
            return None
        used = self.clusters if clusters is None else clusters
        scored = {cluster for cluster, score in zip(used, scores, strict=True) if score is not None}
        return list(bootstrap_ci(scores, clusters=used if len(scored) > 1 else None, **self._options))


def counts_up_to(k: int) -> list[int]:
    """Powers of two up to k, and k: the k of pass@k.

    >>> counts_up_to(6)
    [1, 2, 4, 6]
    """
    powers = [2**i for i in range(k.bit_length()) if 2**i <= k]
    return powers if powers[-1] == k else [*powers, k]


def failures_of(samples: Iterable[Sample]) -> dict[str, dict[str, Any]]:
    """How often each cause was met, with the first rollout that met it as an example."""
    found: dict[str, dict[str, Any]] = {}
    for sample in samples:
        if sample.cause is not Cause.NONE:
            example = {"example": sample.rollout_id, "query_id": sample.query_id, "detail": sample.detail}
            found.setdefault(str(sample.cause), {"count": 0, **example})["count"] += 1
    return dict(sorted(found.items(), key=lambda item: -item[1]["count"]))


def mean(values: Iterable[float | None]) -> float | None:
    """Mean of the values that there are; None without any."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def quantile(values: Sequence[float], share: float) -> float | None:
    """The value that `share` of the values do not exceed, one of them; None without any."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)] if values else None


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
