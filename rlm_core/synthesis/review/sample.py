"""Which questions are read: of every kind and tier its share, at least one, by a seed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from rlm_core.files import content_key
from rlm_core.records import Query


def draw(queries: Sequence[Query], count: int, seed: int) -> list[Query]:
    """`count` of the queries (all, if there are fewer), stratified by kind and tier; the same for the same seed.

    Seats go one by one to the stratum that is furthest below its share (Sainte-Laguë), after one for each, so that a
    rare tier is read too.
    """
    strata: dict[tuple[str, str], list[Query]] = defaultdict(list)
    for query in sorted(queries, key=lambda q: content_key(seed, q.id)):
        strata[query.kind, query.tier].append(query)
    taken = dict.fromkeys(sorted(strata), 0)
    for _ in range(min(count, len(queries))):
        open_strata = [name for name in taken if taken[name] < len(strata[name])]
        name = max(open_strata, key=lambda n: (taken[n] == 0, len(strata[n]) / (2 * taken[n] + 1)))
        taken[name] += 1
    return [query for name in sorted(strata) for query in strata[name][: taken[name]]]
