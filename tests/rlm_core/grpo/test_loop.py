"""The loop on a tiny model that samples for itself: it learns, resumes with the same numbers, and refuses stale tokens."""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from rlm_core.grpo.actor import check_versions
from rlm_core.grpo.figures import guard_parted
from rlm_core.grpo.learner import Learner, warmup
from rlm_core.grpo.loop import StepLog, Training, draw, judge_trees
from rlm_core.grpo.state import checkpoints
from rlm_core.params import GrpoParams
from rlm_core.records import Evidence, Judgement, Query, Rollout, Status, Turn
from rlm_core.rewards import JudgeError

QUERIES = [Query(f"q{i}", f"question {i}?", evidence=(Evidence("p", "gold"),)) for i in range(5)]
WANTED = 9
"""The token that earns reward."""


class SelfActor:
    """Samples two-turn trees with one child from a copy of the newest weights, as a server would."""

    def __init__(self, model: Any) -> None:
        self.version = 0
        self.model = copy.deepcopy(model)
        self.published: list[int] = []

    async def publish(self, model: Any) -> int:
        self.model.load_state_dict(model.state_dict())
        self.version += 1
        self.published.append(self.version)
        return self.version

    async def roll_out(self, queries: Sequence[Query], *, samples: int, seed: int) -> list[Rollout]:
        return [self.tree(q, k, random.Random(f"{seed}.{q.id}.{k}")) for q in queries for k in range(samples)]

    def tree(self, query: Query, sample: int, rng: random.Random) -> Rollout:
        start = (3, 4, 10 + int(query.id[1:]))
        first = self.turn(start, rng)
        child = Rollout(f"{query.id}.{sample}.0", depth=1, turns=(self.turn((5, *start), rng),))
        second = self.turn((*start, *first.completion_ids, 6), rng)
        answer = [*first.completion_ids, *second.completion_ids, *child.turns[0].completion_ids]
        return Rollout(
            f"{query.id}.{sample}", query_id=query.id, turns=(first, second), children=(child,), answer=answer
        )

    @torch.no_grad()
    def turn(self, prompt: tuple[int, ...], rng: random.Random) -> Turn:
        generator = torch.Generator().manual_seed(rng.randrange(2**31))
        ids, logprobs = [], []
        for _ in range(3):
            logp = self.model(torch.tensor([[*prompt, *ids]])).logits[0, -1].float().log_softmax(-1)
            token = int(torch.multinomial(logp.exp(), 1, generator=generator))
            ids.append(token)
            logprobs.append(logp[token].item())
        return Turn("x", prompt_ids=prompt, completion_ids=tuple(ids), logprobs=tuple(logprobs),
                    weights_version=self.version)  # fmt: skip


class CountingJudge:
    name = "counting"

    def __init__(self, fails_on: str = "") -> None:
        self.fails_on = fails_on

    async def score(self, question: str, predicted: Any, gold: Any) -> Judgement:
        if self.fails_on and self.fails_on in question:
            raise JudgeError("out of order")
        return Judgement(5, 5, predicted.count(WANTED) / len(predicted), judge="counting")


def save_weights(model: Any, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(model.state_dict(), folder / "weights.pt")


def make_training(kit: SimpleNamespace, folder: Path, logs: list[StepLog] | None = None, **fields: Any) -> Training:
    config = {"steps": 4, "queries_per_step": 2, "rollouts_per_query": 4, "lr": 3e-3, "warmup_steps": 0, "eval_every": 2,
              "eval_queries": 2, "eval_samples": 2, **fields}  # fmt: skip
    model = kit.build_model("llama")
    return Training(
        learner=Learner(model, GrpoParams.model_validate(config)),
        actor=SelfActor(model),
        judge=CountingJudge(),
        queries=QUERIES[:4],
        validation=QUERIES[4:],
        config=GrpoParams.model_validate(config),
        seed=1,
        folder=folder,
        save_best=save_weights,
        on_log=(logs if logs is not None else []).append,
    )


async def test_it_learns(kit: SimpleNamespace, tmp_path: Path):
    logs: list[StepLog] = []
    training = make_training(
        kit, tmp_path, logs, steps=12, queries_per_step=3, rollouts_per_query=6, eval_every=6, lr=1e-2
    )
    state = await training.run()
    rewards = [row["reward_mean"] for row in state.curve]
    assert sum(rewards[-3:]) / 3 > sum(rewards[:3]) / 3 + 0.2
    assert state.best_reward is not None and state.best_reward > state.validation[0]["val_reward_mean"] + 0.2
    assert [row["step"] for row in state.validation] == [0, 6, 12]
    assert (tmp_path / "best" / "weights.pt").exists()
    # On policy in fp32: the ratio is 1 but for rounding.
    assert all(row["ratio_outside"] == 0 and row["logp_gap"] < 1e-4 for row in state.curve)
    assert {entry.kind for entry in logs} == {"train", "val"}
    assert training.actor.version == 12


async def test_a_killed_run_goes_on_with_the_same_numbers(kit: SimpleNamespace, tmp_path: Path):
    whole = await make_training(kit, tmp_path / "whole").run()

    class Killed(RuntimeError):
        pass

    def die(entry: StepLog) -> None:
        if entry.kind == "train" and entry.step == 2:
            raise Killed  # after the update and the publishing of step 2, before its checkpoint

    first = make_training(kit, tmp_path / "cut")
    first.on_log = die
    with pytest.raises(Killed):
        await first.run()
    assert [c.name for c in checkpoints(tmp_path / "cut")] == ["step-000001", "step-000002"]
    second = make_training(kit, tmp_path / "cut")
    resumed = await second.run()
    assert [row["step"] for row in resumed.curve] == [0, 1, 2, 3]
    for a, b in zip(whole.curve, resumed.curve, strict=True):
        timed = {k for k in a if k.startswith("seconds") or k == "tokens_per_second"}
        assert {k: v for k, v in a.items() if k not in timed} == {k: v for k, v in b.items() if k not in timed}
    assert whole.best_reward == resumed.best_reward and len(resumed.validation) == 3
    for x, y in zip(whole_weights(tmp_path / "whole"), whole_weights(tmp_path / "cut"), strict=True):
        assert torch.equal(x, y)


def whole_weights(folder: Path) -> list[torch.Tensor]:
    saved = torch.load(checkpoints(folder)[-1] / "learner.pt", weights_only=True)
    return list(saved["fp32"].values())


async def test_only_the_last_two_checkpoints_stay_and_parts_do_not_count(kit: SimpleNamespace, tmp_path: Path):
    (tmp_path / ".step-000009.part").mkdir()
    await make_training(kit, tmp_path, eval_every=0).run()
    assert [c.name for c in checkpoints(tmp_path)] == ["step-000003", "step-000004"]


async def test_a_failed_judge_or_tree_leaves_its_group_and_is_no_zero(kit: SimpleNamespace, tmp_path: Path):
    training = make_training(kit, tmp_path, steps=1, queries_per_step=4, eval_every=0)
    training.judge = CountingJudge(fails_on="question 2")
    figures = (await training.run()).curve[0]
    assert figures["judge_failures"] == 4 and figures["dropped_groups"] >= 1
    failed = Rollout("q0.0", status=Status.FAILED)
    answered = Rollout("q0.1", answer=[WANTED])
    verdicts = await judge_trees(CountingJudge(), [QUERIES[0]] * 2, [failed, answered])
    assert verdicts[0] is None and verdicts[1] is not None and verdicts[1].reward == 1.0


async def test_equal_rewards_leave_the_weights_as_they_are(kit: SimpleNamespace, tmp_path: Path):
    training = make_training(kit, tmp_path, steps=2, eval_every=0)
    before = copy.deepcopy(training.learner.model.state_dict())

    class Same(CountingJudge):
        async def score(self, question: str, predicted: Any, gold: Any) -> Judgement:
            return Judgement(5, 5, 0.5)

    training.judge = Same()
    state = await training.run()
    assert state.curve[0]["dropped_groups"] == 2 and state.curve[0]["grad_norm"] == 0
    assert all(torch.equal(a, before[k]) for k, a in training.learner.model.state_dict().items())


async def test_stale_tokens_are_refused(kit: SimpleNamespace, tmp_path: Path):
    training = make_training(kit, tmp_path, eval_every=0)

    class Stale(SelfActor):
        def turn(self, prompt: tuple[int, ...], rng: random.Random) -> Turn:
            return replace(super().turn(prompt, rng), weights_version=0)

    training.actor = Stale(training.learner.model)
    with pytest.raises(RuntimeError, match="weights version 0, expected 1"):
        await training.run()
    check_versions([Rollout("r", turns=(Turn("scripted"),))], 7)  # a turn without sampled ids has no version to check


async def test_kl_to_a_frozen_copy_grows_from_zero(kit: SimpleNamespace, tmp_path: Path):
    state = await make_training(kit, tmp_path, beta=0.01, eval_every=0, lr=1e-2).run()
    kl = [row["kl"] for row in state.curve]
    assert kl[0] == pytest.approx(0, abs=1e-6) and kl[-1] > 1e-4


async def test_bf16_weights_train_with_fp32_masters(kit: SimpleNamespace, tmp_path: Path):
    training = make_training(kit, tmp_path, eval_every=0)
    model = kit.build_model("llama").bfloat16()
    training.learner, training.actor = Learner(model, training.config), SelfActor(model)
    state = await training.run()
    assert state.step == 4 and model.lm_head.weight.dtype == torch.bfloat16
    assert all(m.dtype == torch.float32 for m in training.learner.optimizer.masters)
    again = Learner(kit.build_model("llama").bfloat16(), training.config)
    again.load(checkpoints(tmp_path)[-1] / "learner.pt")
    assert all(torch.equal(a, b) for a, b in zip(again.model.parameters(), model.parameters(), strict=True))


def test_every_query_is_drawn_once_an_epoch_in_a_seeded_order():
    drawn = [q.id for step in range(5) for q in draw(QUERIES, 2, step, seed=3)]
    assert sorted(drawn[:5]) == sorted(drawn[5:]) == [q.id for q in QUERIES]
    assert drawn == [q.id for step in range(5) for q in draw(QUERIES, 2, step, seed=3)]
    assert drawn != [q.id for step in range(5) for q in draw(QUERIES, 2, step, seed=4)]


def test_warmup_rises_to_one():
    assert [warmup(s, 2) for s in range(4)] == pytest.approx([1 / 3, 2 / 3, 1, 1])
    assert warmup(0, 0) == 1


def test_the_guard_warns_when_reward_and_evidence_part():
    def curve(reward: float, f1: float) -> list[dict[str, float]]:
        return [{"reward_mean": 0.3 + reward * i / 15, "evidence_f1": 0.3 + f1 * i / 15} for i in range(16)]

    # 16 steps, windows of 8: a slope of 0.2 over the run is a change of 0.2 * 8 / 15 = 0.107 between the windows
    assert guard_parted(curve(0.2, -0.2))
    assert not guard_parted(curve(0.2, 0.2)) and not guard_parted(curve(0.2, -0.05))
    assert not guard_parted(curve(0.2, -0.2)[:15])
