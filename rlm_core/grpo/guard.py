"""Has the reward parted from what it does not see? A test on the curve that keeps its error rate over a whole run.

A step's figures are means over its own queries, and hard queries lower reward and guard alike. So the gap, reward minus
guard, is compared step by step (paired), between the first and the last `window` steps, by Welch's t-test
(unequal variances; B. L. Welch, Biometrika 34, 1947). A guard has parted when all three hold:

- the reward has risen,            one-sided, at level `alpha / looks`;
- the gap has grown,               likewise, and by at least `least`;
- the guard has not risen at all   (its means).

A guard on another scale that rises with the reward, only slower, is therefore no alarm. `looks` (Bonferroni) is how often a
run asks: over all steps of a run whose reward does not truly rise, a false alarm has a probability of at most `alpha`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

GUARDS = ("evidence_f1", "guard_reward")
"""Figures of a step that the reward does not see."""


def parted_guards(
    curve: Sequence[Mapping[str, float]], *, steps: int, window: int = 8, least: float = 0.05, alpha: float = 0.05
) -> list[str]:
    """The guards that have parted from `reward_mean` by now; none before there are two windows. `steps`: of the whole run."""
    looks = max(1, steps - 2 * window + 1)
    return [guard for guard in GUARDS if _parted(curve, guard, window, least, alpha / looks)]


def _parted(curve: Sequence[Mapping[str, float]], guard: str, window: int, least: float, level: float) -> bool:
    rows = [(row["reward_mean"], row[guard]) for row in curve if "reward_mean" in row and guard in row]
    if len(rows) < 2 * window:
        return False
    first, last = rows[:window], rows[-window:]
    gaps = [[reward - value for reward, value in part] for part in (first, last)]
    if fmean(gaps[1]) - fmean(gaps[0]) < least or fmean(v for _, v in last) > fmean(v for _, v in first):
        return False
    rewards = [[reward for reward, _ in part] for part in (first, last)]
    return _rose(rewards[0], rewards[1], level) and _rose(gaps[0], gaps[1], level)


def _rose(before: Sequence[float], after: Sequence[float], level: float) -> bool:
    from scipy.stats import ttest_ind

    if len({*before}) == len({*after}) == 1:  # no variance to measure by
        return after[0] > before[0]
    return bool(ttest_ind(after, before, equal_var=False, alternative="greater").pvalue < level)
