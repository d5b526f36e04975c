"""What decides where a stage runs and whether a worker's checkout can stand for the caller's."""

from __future__ import annotations

from pathlib import Path

import pytest
from prefect.states import Failed

from flows import remote
from flows.artifacts import headline
from flows.dvc import StageFailed, lock_hash, stages_of_pool
from flows.remote import Caller, outputs_read_by, refuse_other_code, shares_folder
from flows.stages import is_passing
from flows.sweep import Variant, row_of
from flows.workspace import copy_tree, tracked_files
from rlm_core.files import write_json

ROOT = Path(__file__).resolve().parents[2]


def caller(folder: Path, **changes: object) -> Caller:
    values = {"folder": str(folder), "token": "abc", "commit": "c1", "lock": "", "remote": True}
    return Caller.model_validate({**values, **changes})


def test_stages_that_fill_a_gpu_are_marked() -> None:
    assert stages_of_pool("gpu", ROOT) == {"sft", "grpo", "evaluate"}
    assert stages_of_pool("cpu", ROOT) == set()


def test_inputs_of_a_stage_are_what_other_stages_made() -> None:
    assert outputs_read_by("sft", ROOT) == ["data/sft"]
    assert set(outputs_read_by("grpo", ROOT)) == {"data/queries", "data/parsed", "models/sft"}
    assert outputs_read_by("papers", ROOT) == []


def test_a_folder_is_shared_when_its_token_is_the_callers(tmp_path: Path) -> None:
    assert not shares_folder(caller(tmp_path))
    (tmp_path / ".cache").mkdir()
    (tmp_path / remote.TOKEN).write_text("another project at the same path")
    assert not shares_folder(caller(tmp_path))
    (tmp_path / remote.TOKEN).write_text("abc")
    assert shares_folder(caller(tmp_path))


def test_other_code_and_a_missing_remote_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(remote, "commit_of", lambda root: "c1")
    refuse_other_code(caller(tmp_path))
    with pytest.raises(StageFailed, match="no DVC remote"):
        refuse_other_code(caller(tmp_path, remote=False))
    with pytest.raises(StageFailed, match="is at c1, the caller's at c2"):
        refuse_other_code(caller(tmp_path, commit="c2"))


def test_the_hash_of_a_lock_entry_follows_the_entry(tmp_path: Path) -> None:
    assert lock_hash("a", tmp_path) is None
    lock = tmp_path / "dvc.lock"
    lock.write_text("schema: '2.0'\nstages:\n  a: {cmd: x, outs: [{path: o, md5: '1'}]}\n  b: {cmd: y}\n")
    first = lock_hash("a", tmp_path)
    lock.write_text(lock.read_text().replace("cmd: y", "cmd: z"))
    assert lock_hash("a", tmp_path) == first
    lock.write_text(lock.read_text().replace("md5: '1'", "md5: '2'"))
    assert lock_hash("a", tmp_path) not in (first, None)
    assert lock_hash("c", tmp_path) is None


@pytest.mark.parametrize(
    ("error", "again"), [(StageFailed("x", passing=True), True), (StageFailed("x"), False), (KeyError(), False)]
)
def test_only_reasons_outside_are_tried_again(error: Exception, again: bool) -> None:
    state = Failed(data=error)
    assert is_passing(None, None, state) is again  # type: ignore[arg-type]


def test_a_copy_holds_what_git_would_and_keeps_what_it_is_told(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    for name in ("dvc.yaml", "tasks/a.py", "data/big", ".cache/state", ".dvc/config", ".dvc/cache/x", "mlflow.db"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text("")
    (source / "dvc.yaml").write_text("stages: {}\n")
    assert sorted(tracked_files(source)) == [".dvc/config", "dvc.yaml", "tasks/a.py"]
    for name in (".cache/resume", "tasks/old.py", "stray"):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_text("")
    copy_tree(target, source, keep=frozenset({".cache"}))
    assert (target / ".cache" / "resume").exists()
    assert (target / "tasks" / "a.py").exists()
    assert not (target / "tasks" / "old.py").exists()
    assert not (target / "stray").exists()
    assert "no_scm" in (target / ".dvc" / "config").read_text()


def test_a_row_of_a_sweep_says_what_differs_and_why_there_are_no_figures(tmp_path: Path) -> None:
    one = Variant(name="fast", overrides={"grpo": {"lr": 0.5}, "seed": 3})
    row = row_of(one, "stage 'grpo' failed: exit code 255", "", None)
    assert row["differs in"] == "seed=3, grpo.lr=0.5"
    assert (row["judge"], row["MLflow"]) == ("", "")
    figures = {"judge_mean": 0.5, "judge_ci95": [0.4, 0.6], "f1_mean": 0.25, "format_success": 1, "tokens_mean": 10}
    figures |= {"seconds_mean": 2, "n": 4}
    write_json(tmp_path / "reports" / "evaluation.json", {"arms": {"grpo": figures}})
    row = row_of(one, "finished", "http://x", tmp_path)
    assert (row["judge"], row["F1"], row["MLflow"]) == ("0.500 [0.400, 0.600]", "0.250", "[run](http://x)")


def test_an_arm_that_no_judge_could_score_has_a_row_too() -> None:
    names = ("judge_mean", "judge_ci95", "f1_mean", "format_success", "tokens_mean", "seconds_mean")
    row = headline(dict.fromkeys(names) | {"n": 0, "f1_mean": 0.25})
    assert row == {"judge": "-", "F1": "0.250", "format": "-", "tokens": "-", "seconds": "-", "n": "0"}
