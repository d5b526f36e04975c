"""Stages that fill a device queue for it; the others do not."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from rlm_core.locks import file_lock
from tasks import device
from tasks.common import OutsideError, StageError, failed_trees, outside_reason
from tasks.device import devices, hold_devices


def test_the_devices_are_those_that_the_process_sees(tmp_path: Path) -> None:
    assert devices({}, tmp_path) == ["cpu"]
    for name in ("nvidia1", "nvidia0", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    assert devices({}, tmp_path) == ["gpu-0", "gpu-1"]
    assert devices({"CUDA_VISIBLE_DEVICES": "3, 1"}, tmp_path) == ["gpu-1", "gpu-3"]
    assert devices({"CUDA_VISIBLE_DEVICES": ""}, tmp_path) == ["cpu"]
    assert devices({"CUDA_VISIBLE_DEVICES": "-1"}, tmp_path) == ["cpu"]


def test_dvc_yaml_marks_the_same_stages() -> None:
    stages = yaml.safe_load(Path("dvc.yaml").read_text())["stages"]
    marked = {name for name, entry in stages.items() if entry.get("meta") == {"pool": "gpu"}}
    assert marked == device.STAGES


def test_only_stages_that_fill_a_device_hold_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLM_LOCK_DIR", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    with hold_devices("grpo", on_wait=print):
        assert sorted(f.name for f in tmp_path.iterdir()) == ["gpu-0.lock", "gpu-1.lock"]
        assert "stage 'grpo' of" in (tmp_path / "gpu-1.lock").read_text()
        with hold_devices("papers", on_wait=pytest.fail):
            pass

        def give_up(line: str) -> None:
            raise TimeoutError(line)

        with pytest.raises(TimeoutError, match="held by stage 'grpo'"), hold_devices("sft", on_wait=give_up):
            pass
    with file_lock(tmp_path / "gpu-0.lock", holder="free again", on_wait=pytest.fail):
        pass


def test_what_another_try_may_mend() -> None:
    from rlm_core.papers.engines import EngineError
    from rlm_core.papers.engines.base import EngineSilent
    from rlm_core.policies import PolicyError
    from rlm_core.policies.http import HttpError
    from rlm_core.synthesis.chat import ChatError, ChatRefused, ChatSilent

    def caused_by(cause: Exception | None) -> StageError:
        error = StageError("the stage")
        error.__cause__ = cause
        return error

    for cause in (
        PolicyError("no reply after 6 tries"),
        ChatSilent("no reply"),
        EngineSilent("no reply"),
        ConnectionRefusedError(),
        TimeoutError(),
    ):
        assert outside_reason(caused_by(cause)), cause
    assert outside_reason(OutsideError("the endpoint is down"))
    refusals = (HttpError("refused", 401, "bad key"), ChatRefused("bad key"), EngineError("bad key"))
    for cause in (*refusals, ChatError("unreadable"), ValueError("x"), None):
        assert not outside_reason(caused_by(cause)), cause


def test_trees_that_failed_for_want_of_an_endpoint_may_do_better_later() -> None:
    """The lines are those of `rlm_core.rollouts.failures`."""
    for outside in ("q.0: PolicyError: gave up after 6 tries", "q.0: llm_query: PolicyError: no reply within 5 s"):
        assert outside_reason(failed_trees("8 trees failed", outside)), outside
    for own in ("q.0: HttpError: HTTP 401: no key", "q.0: WorkerFailure: no sandbox", "q.0: llm_query: HttpError: 404"):
        assert not outside_reason(failed_trees("8 trees failed", own)), own
