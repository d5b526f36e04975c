"""Batches: whose rewards count, what a group of them holds, and that they survive a checkpoint."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from rlm_core.grpo.batches import Batch, Served, advantages_of, has_cut, judge_trees
from rlm_core.params import GrpoParams
from rlm_core.records import ErrorClass, Judgement, Query, Rollout, Status, Turn

FULL = Turn("x", prompt_ids=(1,), completion_ids=(2,), logprobs=(-1.0,))
CUT = Turn("x", prompt_ids=(1,), completion_ids=(2,), logprobs=(-1.0,), finish_reason="length")
PAIRS = GrpoParams(rollouts_per_query=4, scale_by_std=False)


def verdict(reward: float) -> Judgement:
    return Judgement(5, 5, reward)


def test_trees_with_a_cut_turn_are_kept_or_leave_their_group():
    trees = [Rollout("a", turns=(FULL,)), Rollout("b", turns=(FULL, CUT)), Rollout("c", turns=(FULL,)),
             Rollout("d", turns=(FULL,), children=(Rollout("d.0", turns=(CUT,)),))]  # fmt: skip
    rewards = [verdict(r) for r in (1.0, 0.0, 0.5, 0.9)]
    assert [has_cut(tree) for tree in trees] == [False, True, False, True]
    # mean of all .6; without the cut ones .75
    assert advantages_of(trees, rewards, PAIRS) == pytest.approx([0.4, -0.6, -0.1, 0.3])
    dropped = PAIRS.model_copy(update={"length_cut": "drop"})
    assert advantages_of(trees, rewards, dropped) == [0.25, None, -0.25, None]
    error_only = Rollout("e", turns=(Turn("x", error=ErrorClass.LENGTH),))
    assert has_cut(error_only)


async def test_a_failed_tree_is_not_judged(play: SimpleNamespace):
    failed, answered = Rollout("q0.0", status=Status.FAILED), Rollout("q0.1", answer=[play.WANTED])
    verdicts = await judge_trees(play.CountingJudge(), [play.QUERIES[0]] * 2, [failed, answered])
    assert verdicts[0] is None and verdicts[1] is not None and verdicts[1].reward == 1.0


def test_a_batch_survives_a_checkpoint():
    queries = [Query("q", "?"), Query("r", "?")]
    batch = Batch(
        queries=queries,
        rollouts=[Rollout("q.0", query_id="q", turns=(FULL,)), Rollout("r.0", query_id="r", answer=["a"])],
        judgements=[verdict(0.5), None],
        advantages=[0.1, None],
        group_size=1,
        policy_step=3,
        position=17,
        guards=[None, verdict(0.2)],
        seconds={"seconds_rollout": 1.5},
    )
    assert Batch.from_dict(json.loads(json.dumps(batch.to_dict())), queries) == batch
    assert (batch.num_groups, batch.num_informative) == (2, 1)
    with pytest.raises(KeyError):
        Batch.from_dict(batch.to_dict(), queries[:1])


def test_batches_of_other_weights_do_not_mix():
    empty = Batch([], [], [], [], 2, policy_step=1, position=0)
    with pytest.raises(AssertionError):
        empty.plus(Batch([], [], [], [], 2, policy_step=2, position=0))
    assert Served(4, 2) != Served(4, 3)
