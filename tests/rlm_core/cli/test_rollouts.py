"""`rlm-forge rollouts`, over a stored file."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rlm_core.cli.main import app
from rlm_core.records import Rollout, Turn
from rlm_core.rollouts import RolloutStore

ROOT = Path(__file__).resolve().parents[3]
runner = CliRunner()


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COLUMNS", "160")
    path = tmp_path / "rollouts.jsonl"
    store = RolloutStore(path)
    for name in ("q1", "q2"):
        child = Rollout(id=f"{name}.0.0", parent_id=f"{name}.0", depth=1, parent_turn=0, question=f"part of {name}")
        turns = (Turn(text=f"```python\nprint('{name}')\n```", observation=name),)
        store.add(
            name, Rollout(id=f"{name}.0", question=f"<b>{name}?</b>", turns=turns, children=(child,), answer=[name])
        )
    return path


def test_a_tree_or_a_child_is_shown_by_its_id(stored: Path) -> None:
    first = runner.invoke(app, ["rollouts", "show", str(stored)])
    assert first.exit_code == 0, first.output
    assert "q1.0" in first.output
    assert "q2" not in first.output
    second = runner.invoke(app, ["rollouts", "show", str(stored), "q2.0"])
    assert "part of q2" in second.output
    child = runner.invoke(app, ["rollouts", "show", str(stored), "q2.0.0"])
    assert "part of q2" in child.output
    assert "<b>q2?</b>" not in child.output


def test_a_page_is_written_whole(stored: Path, tmp_path: Path) -> None:
    out = tmp_path / "pages" / "tree.html"
    result = runner.invoke(app, ["rollouts", "show", str(stored), "q2.0", "--html", str(out)])
    assert result.exit_code == 0, result.output
    assert "q2.0, 2 nodes" in result.output
    page = out.read_text()
    assert page.startswith("<!doctype html>")
    assert page.rstrip().endswith("</html>")
    assert "&lt;b&gt;q2?&lt;/b&gt;" in page
    assert "<b>q2?</b>" not in page


def test_what_is_not_there_is_said(stored: Path, tmp_path: Path) -> None:
    missing = runner.invoke(app, ["rollouts", "show", str(stored), "q9.0"])
    assert missing.exit_code == 2
    assert "no rollout 'q9.0' there" in missing.output
    other = tmp_path / "other.jsonl"
    other.write_text(json.dumps({"question": "no tree"}) + "\n")
    wrong = runner.invoke(app, ["rollouts", "list", str(other)])
    assert wrong.exit_code == 2
    assert "not a file of rollout trees" in wrong.output


@pytest.mark.proof
def test_prompts_are_shown_with_their_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "160")
    tokens = []
    for options in ([], ["--kind", "multi"], ["--child"]):
        result = runner.invoke(app, ["prompts", "show", *options])
        assert result.exit_code == 0, result.output
        assert "Turn 1 of" in result.output
        count = re.search(r"(\d+) tokens for", result.output)
        assert count is not None
        tokens.append(int(count[1]))
    assert min(tokens) > 100
    assert len(set(tokens)) == 3


def test_of_arms_that_answer_the_same_question_one_is_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    path = tmp_path / "rollouts.jsonl"
    trees = {arm: Rollout(id="q1.0", question="?", turns=(Turn(text=f"said by {arm}"),)) for arm in ("sft", "grpo")}
    path.write_text("".join(json.dumps({"arm": a, "rollout": t.to_dict()}) + "\n" for a, t in trees.items()))
    shown = runner.invoke(app, ["rollouts", "show", str(path), "q1.0", "--arm", "grpo"])
    assert "said by grpo" in shown.output and "said by sft" not in shown.output
    listed = runner.invoke(app, ["rollouts", "list", str(path)]).output
    assert "sft" in listed and "grpo" in listed
    missing = runner.invoke(app, ["rollouts", "show", str(path), "--arm", "base"])
    assert missing.exit_code == 2
    assert "no rollout of arm 'base' there" in missing.output
