"""Rewards of one query's rollout trees -> one advantage a tree.

`A_i = r_i - mean`, or `(r_i - mean) / (std + eps)` with the sample standard deviation (n - 1) and eps 1e-4, as
TRL's `GRPOTrainer` computes both (`scale_rewards="none"` and `"group"`). Departures: a tree that was not judged is left
out of mean and std, and a group without signal gives None for every tree, so that it adds nothing, KL included.
"""

# G trees of one query

from __future__ import annotations

import math
from collections.abc import Sequence

STD_EPS = 1e-4
"""Added to the standard deviation; TRL's value."""


def group_advantages(
    rewards_G: Sequence[float | None],
    *,
    scale_by_std: bool = False,
    tolerance: float = 1e-6,
    eps: float = STD_EPS,
) -> list[float | None]:
    """The advantage of each tree over its group; None where the tree gives no training signal.

    `rewards_G`: one reward a tree, None where the judge failed (never counted as 0). All None are returned when fewer
    than two trees are judged or when the judged rewards span at most `tolerance`: float noise of a judge, blown up by a
    tiny std, is no signal.

    >>> group_advantages([1.0, None, 0.0])
    [0.5, None, -0.5]
    >>> group_advantages([0.7, 0.7, None])
    [None, None, None]
    """
    for index, reward in enumerate(rewards_G):
        if reward is not None and not math.isfinite(reward):
            raise ValueError(f"reward {index} of the group is {reward}; give None for a tree whose judge failed")
    judged = [float(r) for r in rewards_G if r is not None]
    if len(judged) < 2 or max(judged) - min(judged) <= tolerance:
        return [None] * len(rewards_G)
    mean = math.fsum(judged) / len(judged)
    scale = 1.0
    if scale_by_std:
        scale = math.sqrt(math.fsum((r - mean) ** 2 for r in judged) / (len(judged) - 1)) + eps
    return [None if r is None else (r - mean) / scale for r in rewards_G]
