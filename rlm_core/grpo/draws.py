"""Which queries come next: an endless, seeded sequence that one number, the position in it, takes up again.

Without a share of kinds, position i is the i-th query of an endless list: all queries in a seeded order, then all of them in
another order, and so on. With a share s of multi-paper queries, position i is a multi-paper one where `floor((i+1) s)`
exceeds `floor(i s)`, so that any k positions in a row hold k s of them, give or take one; each kind is then an endless
list of its own.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction

from rlm_core.records import Query
from rlm_core.rollouts import derive_seed


def draw(
    queries: Sequence[Query], count: int, position: int, seed: int, *, multi_share: float | None = None
) -> list[Query]:
    """The `count` queries from `position` on. Raises `ValueError` when `multi_share` asks for a kind that is not there."""
    if multi_share is None:
        return _Endless(queries, seed, "queries").take(range(position, position + count))
    kinds = {kind: [q for q in queries if q.kind == kind] for kind in ("multi", "single")}
    for kind, wanted in (("multi", multi_share > 0), ("single", multi_share < 1)):
        if wanted and not kinds[kind]:
            raise ValueError(
                f"grpo.multi_share is {multi_share:g}, but none of the {len(queries)} training queries is a {kind}-paper "
                "one whose evidence the parsed text holds; set it to null to take the queries as they come"
            )
    multi, single = (_Endless(kinds[kind], seed, kind) for kind in ("multi", "single"))
    share = Fraction(str(multi_share))  # 0.3 as written: a float's own value would move a draw now and then
    chosen = []
    for i in range(position, position + count):
        before, after = int(i * share), int((i + 1) * share)
        chosen += multi.take([before]) if after > before else single.take([i - before])
    return chosen


class _Endless:
    """Queries in a seeded order, shuffled anew each epoch."""

    def __init__(self, queries: Sequence[Query], seed: int, name: str) -> None:
        self._queries, self._seed, self._name = queries, seed, name
        self._orders: dict[int, list[int]] = {}

    def take(self, positions: Sequence[int]) -> list[Query]:
        places = [divmod(position, len(self._queries)) for position in positions]
        return [self._queries[self._order(epoch)[place]] for epoch, place in places]

    def _order(self, epoch: int) -> list[int]:
        if epoch not in self._orders:
            order = list(range(len(self._queries)))
            random.Random(derive_seed(self._seed, self._name, epoch)).shuffle(order)
            self._orders[epoch] = order
        return self._orders[epoch]
