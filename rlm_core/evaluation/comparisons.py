"""What is compared with what, and in which units: settled before any score is seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from rlm_core.evaluation.arms import MODELS, ArmPlan, further_name
from rlm_core.records import Query

Family = Literal["training", "sharpening", "baselines"]


class Pair(NamedTuple):
    """Two arms that are compared, `a - b`."""

    a: str
    b: str
    family: Family
    """The question that the pair belongs to: did training help; is it more than a sharper distribution; does the trained
    model beat the others. Each is answered by its own adjusted p-values."""


def comparisons_of(plans: Sequence[ArmPlan]) -> list[Pair]:
    """The pairs that are tested.

    `training`: grpo, sft and base among each other. `sharpening`: the same pairs at each further temperature, where both
    arms were asked. `baselines`: the most trained of them against every other arm.
    """
    names = [plan.name for plan in plans]
    trained = [name for name in reversed(MODELS) if name in names]
    pairs = _each_with_each(trained, "training")
    further = {plan.name: plan.temperature for plan in plans if plan.is_further}
    for value in dict.fromkeys(further.values()):
        assert value is not None
        pairs += _each_with_each([n for m in trained if (n := further_name(m, value)) in further], "sharpening")
    if trained:
        pairs += [Pair(trained[0], n, "baselines") for n in names if n not in trained and n not in further]
    return pairs


def _each_with_each(names: Sequence[str], family: Family) -> list[Pair]:
    return [Pair(a, b, family) for i, a in enumerate(names) for b in names[i + 1 :]]


def clusters_of(queries: Sequence[Query]) -> list[str]:
    """The unit of resampling of each query: the papers that hold its evidence."""
    return ["+".join(sorted({e.paper_id for e in query.evidence})) or query.group_id or query.id for query in queries]
