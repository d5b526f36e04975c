"""The figures of a step, by hand."""

from __future__ import annotations

import pytest

from rlm_core.grpo.batches import Batch
from rlm_core.grpo.figures import batch_figures, per_second, rollout_figures
from rlm_core.records import ErrorClass, Evidence, Judgement, Query, Rollout, Status, Turn

SINGLE = Query("s", "?", evidence=(Evidence("p", "gold text"),))
MULTI = Query("m", "?", kind="multi", tier="3-4", evidence=(Evidence("p", "gold text"),))


def turn(tokens: int, error: ErrorClass = ErrorClass.NONE) -> Turn:
    return Turn("x", completion_ids=tuple(range(tokens)), error=error)


def verdict(reward: float) -> Judgement:
    return Judgement(4, 6, reward)


def make_batch() -> Batch:
    child = Rollout("m.0.0", depth=1, turns=(turn(4),))
    rollouts = [
        Rollout("s.0", turns=(turn(2), turn(2, ErrorClass.FORMAT)), answer=["gold text"]),
        Rollout("s.1", turns=(turn(2),), answer=["gold text"]),
        Rollout("m.0", turns=(turn(6, ErrorClass.LENGTH),), children=(child,), status=Status.OUT_OF_TURNS),
        Rollout("m.1", turns=(turn(4, ErrorClass.CODE),), answer=["other"]),
    ]
    return Batch(
        queries=[SINGLE, SINGLE, MULTI, MULTI],
        rollouts=rollouts,
        judgements=[verdict(1.0), verdict(1.0), verdict(0.1), verdict(0.5)],
        advantages=[None, None, -0.2, 0.2],
        group_size=2,
        policy_step=0,
        position=2,
        guards=[verdict(0.8), None, verdict(0.2), verdict(0.2)],
        seconds={"seconds_rollout": 2.0, "seconds_judge": 0.5},
    )


def test_figures_of_a_batch():
    figures = batch_figures(make_batch())
    expected = {
        "reward_mean": 0.65,  # (1 + 1 + .1 + .5) / 4
        "reward_kind_single": 1.0,
        "reward_kind_multi": 0.3,
        "reward_tier_1": 1.0,
        "reward_tier_3-4": 0.3,
        "guard_reward": 0.4,  # (.8 + .2 + .2) / 3: the one without a verdict is no zero
        "evidence_f1": 0.5,  # 1, 1, no answer 0, other 0
        "answered_share": 0.75,
        "turns_mean": 1.2,  # nodes of 2, 1, 1, 1 and 1 turns
        "children_mean": 0.25,
        "format_error_share": 1 / 6,
        "code_error_share": 1 / 6,
        "length_cut_share": 1 / 6,
        "completion_tokens": 20,  # 2 + 2 + 2 + 6 + 4 + 4
        "groups": 2,
        "dropped_groups": 1,
        "dropped_share": 0.5,
        "distinct_answers_mean": 1.5,  # one of the first group, two of the second
        "multi_groups": 1,
        "multi_tree_share": 1.0,
        "seconds_rollout": 2.0,
        "seconds_judge": 0.5,
    }
    assert {key: figures[key] for key in expected} == pytest.approx(expected)


def test_tokens_a_second():
    figures = {"completion_tokens": 20.0, "seconds_rollout": 2.0, "train_tokens_scored": 9.0, "seconds_train": 3.0}
    assert per_second(figures) == {"tokens_per_second": 10.0, "train_tokens_per_second": 3.0}


def test_what_is_not_known_is_left_out():
    figures = rollout_figures([SINGLE], [Rollout("s.0", status=Status.FAILED)], [None])
    assert figures.keys().isdisjoint({"reward_mean", "guard_reward", "reward_kind_single"})
    assert figures["failed_rollouts"] == 1 and figures["judge_failures"] == 0


def test_a_failure_of_the_harness_is_no_answer_and_no_failure_of_the_judge():
    """Three trees of one query: answered; a child that failed under a root that answered; only the judge failed."""
    child = Rollout("s.1.0", depth=1, status=Status.FAILED, failure="endpoint")
    rollouts = [
        Rollout("s.0", turns=(turn(2),), answer=["gold text"], status=Status.ANSWERED),
        Rollout("s.1", turns=(turn(2),), answer=["other"], status=Status.OUT_OF_TURNS, children=(child,)),
        Rollout("s.2", turns=(turn(2),), answer=["gold text"], status=Status.ANSWERED),
    ]
    figures = rollout_figures([SINGLE] * 3, rollouts, [verdict(0.5), None, None])
    assert (figures["failed_rollouts"], figures["judge_failures"]) == (1, 1)
    assert (figures["evidence_f1"], figures["answered_share"], figures["reward_mean"]) == (1.0, 1.0, 0.5)
