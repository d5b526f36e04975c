"""The loop on a tiny model that samples for itself: it learns, refills, stops, works one step ahead, refuses stale tokens."""

from __future__ import annotations

import asyncio
import copy
import math
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from rlm_core.grpo import group_advantages, turn_samples
from rlm_core.grpo.actor import check_versions
from rlm_core.grpo.draws import draw
from rlm_core.grpo.learner import Learner, warmup
from rlm_core.grpo.state import best_folder, checkpoints
from rlm_core.records import Judgement, Query, Rollout, Turn
from rlm_core.rollouts import derive_seed


async def test_it_learns(play: SimpleNamespace, tmp_path: Path):
    logs: list[Any] = []
    training = play.make_training(
        tmp_path, logs, steps=12, queries_per_step=3, rollouts_per_query=6, eval_every=6, lr=1e-2
    )
    state = await training.run()
    rewards = [row["reward_mean"] for row in state.curve]
    assert sum(rewards[-3:]) / 3 > sum(rewards[:3]) / 3 + 0.2
    assert state.best_reward is not None and state.best_reward > state.validation[0]["val_reward_mean"] + 0.2
    assert [row["step"] for row in state.validation] == [0, 6, 12]
    assert [f.name for f in tmp_path.glob("best-*")] == [best_folder(tmp_path, state.best_step).name]
    # On policy in fp32: the ratio is 1 but for rounding.
    assert all(row["ratio_outside"] == 0 and row["logp_gap"] < 1e-4 for row in state.curve)
    assert {entry.kind for entry in logs} == {"train", "val"}
    assert training.actor.version == 12


async def test_it_is_the_recipe_written_out(play: SimpleNamespace, tmp_path: Path):
    training = play.make_training(tmp_path, steps=2, eval_every=0)
    training.judge = play.HashingJudge()
    await training.run()

    model = play.build_model("llama")
    learner, actor, config = Learner(model, training.config), play.SelfActor(model), training.config
    for step in range(2):
        queries = draw(training.queries, 2, 2 * step, training.seed)
        trees = await actor.roll_out(queries, samples=4, seed=derive_seed(training.seed, "train", step))
        rewards = [training.judge.reward(tree.answer) for tree in trees]
        advantages = [a for q in (0, 1) for a in group_advantages(rewards[4 * q : 4 * q + 4], scale_by_std=True)]
        learner.update(turn_samples(trees, advantages, config), step)
        await actor.publish(model)
    for a, b in zip(model.parameters(), training.learner.model.parameters(), strict=True):
        assert torch.equal(a, b)


async def test_every_curve_is_there(play: SimpleNamespace, tmp_path: Path):
    training = play.make_training(tmp_path, steps=1, queries_per_step=4, multi_share=0.5, eval_every=1)
    training.guard_judge = play.CountingJudge()
    training.queries = play.QUERIES
    state = await training.run()
    row = state.curve[0]
    wanted = {
        *("reward_mean", "reward_kind_single", "reward_kind_multi", "reward_tier_1", "evidence_f1", "guard_reward"),
        *("entropy", "ratio_outside", "logp_gap", "kl", "clipped", "policy_lag", "turns_mean", "children_mean"),
        *("format_error_share", "code_error_share", "length_cut_share", "tokens_per_second", "train_tokens_per_second"),
        *("seconds_rollout", "seconds_judge", "seconds_wait", "seconds_train", "seconds_publish", "seconds_step"),
        *("seconds_save", "distinct_answers_mean"),
        *("lr", "grad_norm", "loss", "groups", "dropped_groups", "dropped_share", "multi_groups", "guards_parted"),
    }
    assert wanted <= row.keys()
    assert row["guard_reward"] == row["reward_mean"] and row["multi_groups"] == 2
    assert row["seconds_step"] >= row["seconds_train"] + row["seconds_publish"] + row["seconds_rollout"]
    assert {"val_reward_mean", "val_guard_reward", "val_reward_kind_single"} <= state.validation[0].keys()


async def test_equal_groups_are_refilled_up_to_the_bound(play: SimpleNamespace, tmp_path: Path):
    training = play.make_training(tmp_path, steps=2, eval_every=0, refill=3)
    training.judge = play.HashingJudge(equal_on="question 2")
    state = await training.run()
    rounds = [ids for ids, _, _ in training.actor.asked]
    order = [id for ids in rounds for id in ids]
    # Draws go on where the last roll-out ended: 2 queries a step, one more for each time that q2 came.
    assert order[:4] != sorted(order[:4]) and sorted(order[:4]) == ["q0", "q1", "q2", "q3"]
    assert len(order) == state.position == sum(row["groups"] for row in state.curve)
    assert [row["groups"] - row["dropped_groups"] for row in state.curve] == [2, 2]
    assert sum(row["dropped_groups"] for row in state.curve) == order.count("q2") >= 1

    training = play.make_training(tmp_path / "none", steps=1, eval_every=0, refill=3)
    training.judge = play.CountingJudge(equal_on="question")
    (row,) = (await training.run()).curve
    assert [len(ids) for ids, _, _ in training.actor.asked] == [2, 2, 1]  # 2 asked for, 3 more at most
    assert row["groups"] == row["dropped_groups"] == 5 and row["train_samples"] == 0


async def test_a_failed_judge_leaves_its_group_and_is_no_zero(play: SimpleNamespace, tmp_path: Path):
    training = play.make_training(tmp_path, steps=1, queries_per_step=4, eval_every=0)
    training.judge = play.HashingJudge(fails_on="question 2")
    figures = (await training.run()).curve[0]
    assert figures["judge_failures"] == 4 and figures["dropped_groups"] == 1 and figures["train_samples"] == 3 * 4 * 3


async def test_equal_rewards_leave_the_weights_as_they_are(play: SimpleNamespace, tmp_path: Path):
    training = play.make_training(tmp_path, steps=2, eval_every=0)
    before = copy.deepcopy(training.learner.model.state_dict())
    training.judge = play.CountingJudge(equal_on="question")
    state = await training.run()
    assert state.curve[0]["dropped_groups"] == 2 and state.curve[0]["grad_norm"] == 0
    assert all(torch.equal(a, before[k]) for k, a in training.learner.model.state_dict().items())


async def test_training_ends_when_validation_no_longer_improves(play: SimpleNamespace, tmp_path: Path):
    logs: list[Any] = []
    training = play.make_training(tmp_path, logs, steps=8, eval_every=1, patience=2, save_every=5)
    rewards = iter([0.2, 0.5, 0.4, 0.5, 0.9])

    class Falling(play.CountingJudge):
        """Validation rewards as listed; the training's own as ever."""

        value = 0.0

        async def score(self, question: str, predicted: Any, gold: Any) -> Judgement:
            if question in {q.question for q in training.validation}:
                return Judgement(5, 5, self.value)
            return await super().score(question, predicted, gold)

    training.judge = Falling()
    original = training.actor.roll_out

    async def roll_out(queries: Sequence[Query], **options: Any) -> list[Rollout]:
        if queries[0] in training.validation:
            training.judge.value = next(rewards)
        return await original(queries, **options)

    training.actor.roll_out = roll_out
    state = await training.run()
    # .2 | .5 the best | .4 one without | .5 is no better: two without
    assert state.step == 3 and state.best_step == 1 and state.best_reward == 0.5
    assert [row["step"] for row in state.validation] == [0, 1, 2, 3]
    assert [c.name for c in checkpoints(tmp_path)] == ["step-000003"]  # though the next one was due at step 5
    assert [(e.kind, e.step) for e in logs if e.kind == "train"] == [("train", 0), ("train", 1), ("train", 2)]
    again = play.make_training(tmp_path, steps=8, eval_every=1, patience=2, save_every=5)
    assert (await again.run()).step == 3 and again.actor.asked == []


async def test_a_budget_of_sampled_tokens_ends_training(play: SimpleNamespace, tmp_path: Path):
    # 2 queries x 4 trees x 3 turns x 3 tokens = 72 a step
    state = await play.make_training(tmp_path, steps=9, eval_every=0, max_sampled_tokens=145).run()
    assert state.step == 3 and [row["completion_tokens"] for row in state.curve] == [72] * 3


async def test_evaluations_at_further_temperatures(play: SimpleNamespace, tmp_path: Path):
    training = play.make_training(tmp_path, steps=1, eval_every=1, eval_queries=2, eval_temperatures=[0, 0.5])
    state = await training.run()
    asked = [(len(ids), samples, at) for ids, samples, at in training.actor.asked]
    assert asked == [(2, 2, None), (2, 1, 0), (2, 1, 0.5), (2, 4, None), (2, 2, None), (2, 1, 0), (2, 1, 0.5)]
    row = state.validation[0]
    assert {"val_reward_mean", "val_reward_mean_t0", "val_evidence_f1_t0", "val_reward_mean_t0.5"} <= row.keys()


@pytest.mark.parametrize("ahead", [0, 1])
async def test_rollouts_are_of_the_weights_that_are_expected(play: SimpleNamespace, tmp_path: Path, ahead: int):
    training = play.make_training(tmp_path, eval_every=0, ahead=ahead, lr=1e-2)
    training.judge = play.HashingJudge()
    seen: list[set[int]] = []
    update = training.learner.update

    def watch(samples: Any, step: int) -> Any:
        seen.append({training.actor.version})
        return update(samples, step)

    training.learner.update = watch
    state = await training.run()
    # Step 0 is on policy either way; with `ahead` every later batch is one update old.
    assert [row["policy_lag"] for row in state.curve] == [0, ahead, ahead, ahead]
    assert seen == [{0}, {1}, {2}, {3}]
    gaps = [row["logp_gap"] for row in state.curve]
    assert gaps[0] < 1e-4 and all((gap > 1e-3) == bool(ahead) for gap in gaps[1:])
    assert all((row["ratio_outside"] > 0) == bool(ahead) for row in state.curve[1:])


async def test_the_next_batch_is_rolled_out_while_this_one_trains(play: SimpleNamespace, tmp_path: Path):
    training = play.make_training(tmp_path, steps=2, eval_every=0, ahead=1)
    loop, events = asyncio.get_running_loop(), []
    sampled = asyncio.Event()
    original, update = training.actor.roll_out, training.learner.update

    async def roll_out(queries: Sequence[Query], **options: Any) -> list[Rollout]:
        trees = await original(queries, **options)
        events.append("rolled out")
        sampled.set()
        return trees

    def slow(samples: Any, step: int) -> Any:
        if step == 0:  # ends only when the roll-out of step 1 has ended: they do run side by side
            asyncio.run_coroutine_threadsafe(asyncio.wait_for(sampled.wait(), 60), loop).result()
        events.append("updated")
        return update(samples, step)

    async def first(queries: Sequence[Query], **options: Any) -> list[Rollout]:
        trees = await roll_out(queries, **options)
        sampled.clear()
        training.actor.roll_out = roll_out
        return trees

    training.actor.roll_out, training.learner.update = first, slow
    await training.run()
    assert events == ["rolled out", "rolled out", "updated", "updated"]


async def test_a_failure_ahead_ends_training_and_loses_nothing_saved(play: SimpleNamespace, tmp_path: Path):
    training = play.make_training(tmp_path, eval_every=0, ahead=1)
    original = training.actor.roll_out

    async def roll_out(queries: Sequence[Query], **options: Any) -> list[Rollout]:
        if len(training.actor.asked) == 3:
            raise ConnectionError("the server is gone")
        return await original(queries, **options)

    training.actor.roll_out = roll_out
    with pytest.raises(ConnectionError):
        await training.run()
    assert [c.name for c in checkpoints(tmp_path)] == ["step-000001", "step-000002"]


@pytest.mark.parametrize("ahead", [0, 1])
async def test_stale_tokens_are_refused(play: SimpleNamespace, tmp_path: Path, ahead: int):
    training = play.make_training(tmp_path, eval_every=0, ahead=ahead)

    class Stale(play.SelfActor):
        def turn(self, prompt: tuple[int, ...], rng: random.Random, temperature: float) -> Turn:
            return replace(super().turn(prompt, rng, temperature), weights_version=0)

    training.actor = Stale(training.learner.model)
    with pytest.raises(RuntimeError, match="weights version 0, expected 1"):
        await training.run()


@pytest.mark.parametrize("ahead", [0, 1])
async def test_a_diverged_update_is_neither_served_nor_saved(play: SimpleNamespace, tmp_path: Path, ahead: int):
    training = play.make_training(tmp_path, eval_every=0, ahead=ahead)
    update = training.learner.update

    def diverges(samples: Any, step: int) -> Any:
        return replace(update(samples, step), grad_norm=math.inf if step == 1 else 1.0)

    training.learner.update = diverges
    with pytest.raises(FloatingPointError, match=r"step 1: .* gradient norm inf: training has diverged"):
        await training.run()
    assert [c.name for c in checkpoints(tmp_path)] == ["step-000001"] and training.actor.version == 1


def test_only_tokens_have_versions_and_frozen_children_none():
    check_versions([Rollout("r", turns=(Turn("scripted"),))], 7)
    child = Rollout("r.0", turns=(Turn("y", completion_ids=(1,)),))
    tree = Rollout("r", turns=(Turn("x", completion_ids=(1,), weights_version=7),), children=(child,))
    check_versions([tree], 7, frozen_children=True)
    with pytest.raises(RuntimeError, match=r"'r\.0' turn 0 was sampled with weights version 0, expected 7"):
        check_versions([tree], 7)


async def test_kl_to_a_frozen_copy_grows_from_zero(play: SimpleNamespace, tmp_path: Path):
    state = await play.make_training(tmp_path, beta=0.01, eval_every=0, lr=1e-2).run()
    kl = [row["kl"] for row in state.curve]
    assert kl[0] == pytest.approx(0, abs=1e-6) and kl[-1] > 1e-4


async def test_bf16_weights_train_with_fp32_masters(play: SimpleNamespace, tmp_path: Path):
    training = play.make_training(tmp_path, eval_every=0)
    model = play.build_model("llama").bfloat16()
    training.learner, training.actor = Learner(model, training.config), play.SelfActor(model)
    state = await training.run()
    assert state.step == 4 and model.lm_head.weight.dtype == torch.bfloat16
    assert all(m.dtype == torch.float32 for m in training.learner.optimizer.masters)
    again = Learner(play.build_model("llama").bfloat16(), training.config)
    again.load(checkpoints(tmp_path)[-1] / "learner.pt")
    assert all(torch.equal(a, b) for a, b in zip(again.model.parameters(), model.parameters(), strict=True))


def test_warmup_rises_to_one():
    assert [warmup(s, 2) for s in range(4)] == pytest.approx([1 / 3, 2 / 3, 1, 1])
    assert warmup(0, 0) == 1
