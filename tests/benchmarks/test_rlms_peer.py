"""The comparison with `rlms`: what is said where it cannot be installed, and how its results are told from what it prints."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from benchmarks import rlms_peer, rollouts
from benchmarks.slow_model import CHILDREN, TURNS, reply


def test_without_a_registry_it_says_so_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        assert command[-1] == "rlms==0.1.3"
        assert str(tmp_path / "rlms") in command
        return subprocess.CompletedProcess(command, 1, "", "WARNING: retrying\nERROR: no connection\n")

    monkeypatch.setattr(rlms_peer, "FOLDER", tmp_path / "rlms")
    monkeypatch.setattr(subprocess, "run", fail)
    assert rollouts.run_peer([1]) == []
    assert (
        "cannot be installed here, so only our own runs are measured: ERROR: no connection" in capsys.readouterr().err
    )
    monkeypatch.undo()
    assert not (tmp_path / "rlms" / "done").exists()


def test_a_result_is_the_last_marked_line_whatever_trees_print(capfd: pytest.CaptureFixture[str]) -> None:
    print('rlms_peer: "an older one"\n8\n{"seconds": 1}')
    rlms_peer._say({"seconds": 2.5})
    print("8")
    assert rlms_peer._said(capfd.readouterr().out) == {"seconds": 2.5}
    assert rlms_peer._said("8\n1\n") == "no result"


def test_a_peer_that_breaks_is_a_row_with_a_reason(tmp_path: Path) -> None:
    context = tmp_path / "context.txt"
    context.write_text("x")
    row = rlms_peer.compare(tmp_path, "http://127.0.0.1:9/v1", 1, context, "threads", limit_seconds=60)
    assert (row["trees"], row["how"]) == (1, "threads")
    assert "No module named 'rlm'" in row["error"]
    table = rollouts.show_peer(
        [row, {"trees": 1, "how": "processes", "seconds": 5.0, "failed": 0, "first_failure": "", "peak_mb": 9.0}]
    )
    assert "No module named 'rlm'" in table
    assert "   2.00" in table  # 5.0 s over 2.5 s


def test_both_dialects_play_the_same_program() -> None:
    """A root of 3 turns that asks 8 children of 2 turns."""
    for model, root, child in [
        ("slow", "Question: how many?", "Question: part"),
        ("rlms", "Answer the following: how many?", "Your context is a str"),
    ]:
        for question, turns in [(root, TURNS[0]), (child, TURNS[1])]:
            messages = [{"role": "user", "content": question}]
            said = []
            for _ in range(turns):
                said.append(reply(model, messages))
                messages += [{"role": "assistant", "content": said[-1]}, {"role": "user", "content": "ok"}]
            assert len(set(said)) == turns
            ends = [("FINAL(" in text) or ('"ready"' in text) for text in said]
            assert ends == [False] * (turns - 1) + [True]
            assert ("rlm_query_batched" in said[0]) == (question == root)
            assert (str(CHILDREN) in said[0]) == (question == root)
