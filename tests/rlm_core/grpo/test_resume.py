"""A run that is killed, at whatever moment, goes on with the numbers of an unbroken one; a broken checkpoint is told."""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from rlm_core.grpo.state import CheckpointError, checkpoints
from rlm_core.params import GrpoParams

FIELDS = {"steps": 3, "queries_per_step": 2, "rollouts_per_query": 2, "refill": 1, "eval_every": 1, "eval_queries": 1,
          "eval_samples": 1, "eval_temperatures": [0], "multi_share": 0.5}  # fmt: skip
EVERY_POINT = [("train", 0), ("train", 1), ("train", 2), ("val", 0), ("val", 1), ("val", 2), ("val", 3)]


class Killed(BaseException):
    """As a SIGKILL, for no code catches it."""


def die() -> None:
    raise Killed


def make(play: SimpleNamespace, folder: Path, **fields: Any) -> Any:
    training = play.make_training(folder, **{**FIELDS, **fields})
    training.judge = play.HashingJudge(equal_on="question 1")
    return training


def figures(rows: list[dict[str, float]]) -> list[dict[str, float]]:
    """Without what depends on the clock."""
    return [{k: v for k, v in row.items() if "second" not in k} for row in rows]


def weights(folder: Path) -> list[torch.Tensor]:
    saved = torch.load(checkpoints(folder)[-1] / "learner.pt", weights_only=True)
    return list(saved["fp32"].values())


@pytest.fixture(scope="module")
def unbroken(play: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory) -> dict[int, tuple[Any, Path]]:
    import asyncio

    made = {}
    for ahead in (0, 1):
        folder = tmp_path_factory.mktemp("unbroken")
        made[ahead] = (asyncio.run(make(play, folder, ahead=ahead).run()), folder)
    return made


def assert_equal_runs(state: Any, folder: Path, unbroken: tuple[Any, Path]) -> None:
    whole, whole_folder = unbroken
    assert figures(state.curve) == figures(whole.curve) and figures(state.validation) == figures(whole.validation)
    assert (state.best_step, state.position) == (whole.best_step, whole.position)
    assert [f.name for f in folder.glob("best-*")] == [f.name for f in whole_folder.glob("best-*")]
    for a, b in zip(weights(folder), weights(whole_folder), strict=True):
        assert torch.equal(a, b)


PLACES = ("roll_out", "score", "update", "publish", "save_best", "save_checkpoint", "rename", "save_validation", "on_log",
          "on_log after")  # fmt: skip


@pytest.mark.parametrize("place,ahead", [*((place, 1) for place in PLACES), ("update", 0), ("save_checkpoint", 0)])
async def test_a_run_killed_anywhere_goes_on_with_the_same_numbers(
    place: str, ahead: int, play: SimpleNamespace, tmp_path: Path, unbroken: dict[int, Any],
    monkeypatch: pytest.MonkeyPatch,
):  # fmt: skip
    points: list[tuple[str, int]] = []
    number = {"save_best": 1, "roll_out": 5, "score": 6, "on_log": 6, "on_log after": 6}.get(place, 2)
    first = make(play, tmp_path, ahead=ahead)
    play.logged_once(first, points)
    with monkeypatch.context() as context:
        play.trip(first, place, number, die, patch=context.setattr)
        with pytest.raises(Killed):
            await first.run()
    second = make(play, tmp_path, ahead=ahead)
    play.logged_once(second, points)
    assert_equal_runs(await second.run(), tmp_path, unbroken[ahead])
    assert sorted(points) == EVERY_POINT


@pytest.mark.proof
def test_kill_minus_9(play: SimpleNamespace, tmp_path: Path):
    """A real SIGKILL, behind the rename of a checkpoint's folder and before its log: the second process tells the point."""
    script = str(Path(__file__).with_name("selfplay.py"))

    def run(place: str, number: int) -> int:
        return subprocess.run([sys.executable, script, str(tmp_path), place, str(number), "1"], timeout=300).returncode

    assert run("on_log", 3) == -signal.SIGKILL  # val 0, train 0, val 2 | here steps 0 and 1 are on disk
    assert run("none", 0) == 0
    points = [tuple(json.loads(line)) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert sorted(points) == [*(("train", s) for s in range(4)), ("val", 0), ("val", 2), ("val", 4)]


async def test_only_the_last_two_checkpoints_stay_and_parts_do_not_count(play: SimpleNamespace, tmp_path: Path):
    (tmp_path / ".step-000009.part").mkdir()
    await make(play, tmp_path, eval_every=0).run()
    assert [c.name for c in checkpoints(tmp_path)] == ["step-000002", "step-000003"]


def cut_short(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def zeroed(file: Path) -> None:
    data = bytearray(file.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 64] = bytes(64)
    file.write_bytes(data)


def removed(file: Path) -> None:
    file.unlink()


@pytest.mark.parametrize("name,damage", [("learner.pt", cut_short), ("learner.pt", zeroed), ("learner.pt", removed),
                                         ("state.json", cut_short), ("batch.json", cut_short)])  # fmt: skip
async def test_a_broken_checkpoint_is_told_and_not_trained_from(
    name: str, damage: Any, play: SimpleNamespace, tmp_path: Path, unbroken: dict[int, Any],
    caplog: pytest.LogCaptureFixture,
):  # fmt: skip
    first = make(play, tmp_path, ahead=1)
    play.trip(first, "publish", 3, die)
    with pytest.raises(Killed):
        await first.run()
    assert [c.name for c in checkpoints(tmp_path)] == ["step-000001", "step-000002"]
    damage(tmp_path / "step-000002" / name)
    with caplog.at_level(logging.ERROR):
        state = await make(play, tmp_path, ahead=1).run()
    assert "step-000002 is broken and is not trained from" in caplog.text
    assert_equal_runs(state, tmp_path, unbroken[1])


async def test_no_sound_checkpoint_ends_the_run(play: SimpleNamespace, tmp_path: Path):
    await make(play, tmp_path).run()
    for checkpoint in checkpoints(tmp_path):
        cut_short(checkpoint / "learner.pt")
    with pytest.raises(CheckpointError, match=r"all 2 checkpoints are broken .* Remove the folder to begin anew"):
        await make(play, tmp_path).run()


@pytest.mark.parametrize("torch_writes", [True, False])
async def test_a_full_disk_is_told_and_what_was_saved_stays(
    torch_writes: bool, play: SimpleNamespace, tmp_path: Path, unbroken: dict[int, Any]
):
    first = make(play, tmp_path)
    save = first.learner.save

    def full(file: Path) -> None:
        """Half a file, then what a full disk raises: in torch's writer another error than in Python's."""
        if ".step-000002" not in str(file):
            save(file)
            return
        file.write_bytes(b"half")
        if torch_writes:
            save(Path("/dev/full"))
        Path("/dev/full").write_bytes(b"half")

    first.learner.save = full
    with pytest.raises(
        CheckpointError, match=r"step-000002: cannot be written .* MiB are free .* goes on after step 1"
    ):
        await first.run()
    assert [c.name for c in tmp_path.glob("*step-*")] == ["step-000001"]
    assert_equal_runs(await make(play, tmp_path).run(), tmp_path, unbroken[0])


async def test_evaluations_outlive_checkpoints_that_are_far_apart(play: SimpleNamespace, tmp_path: Path):
    first = make(play, tmp_path, save_every=3)
    play.trip(first, "update", 3, die)
    with pytest.raises(Killed):
        await first.run()
    assert checkpoints(tmp_path) == []
    second = make(play, tmp_path, save_every=3)
    state = await second.run()
    assert [row["step"] for row in state.validation] == [0, 1, 2, 3]
    assert (
        sum(len(ids) == 1 and samples == 1 for ids, samples, _ in second.actor.asked) == 2
    )  # of step 3 alone, T 1 and 0


def test_the_defaults_are_on_policy():
    assert GrpoParams().ahead == 0
