"""Before and after, side by side."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from rlm_core.cli.main import app
from rlm_core.evaluation.pairs import example_pairs, pairs_markdown
from rlm_core.files import write_jsonl
from rlm_core.records import Rollout, Turn


def row(arm: str, query_id: str, why: str, *, text: str = "FINAL('x')", answer: Any = ("x",)) -> dict[str, Any]:
    child = Rollout(f"{query_id}.0.0", parent_id=f"{query_id}.0", depth=1, parent_turn=0, answer=["part"])
    turns = (Turn(text, observation="1 passage"), Turn("FINAL_VAR('found')"))
    return {
        "arm": arm, "query_id": query_id, "why": why, "kind": "multi", "tier": "2", "question": f"Which *{query_id}*?",
        "gold": [{"paper_id": "p1", "text": "rain <b>fell</b>"}], "f1": 0.25, "cause": "ok",
        "judgement": {"precision": 5, "recall": 4, "reward": 0.45, "judge": "lexical"},
        "rollout": Rollout(f"{query_id}.0", query_id=query_id, turns=turns, children=(child,), answer=answer).to_dict(),
    }  # fmt: skip


def test_each_reason_to_be_shown_gets_its_turn():
    shown = [("a", "by order"), ("b", "by order"), ("c", "by order"), ("d", "gain"), ("e", "loss")]
    rows = [row(arm, query_id, why) for query_id, why in shown for arm in ("sft", "grpo")]
    rows.append(row("grpo", "unpaired", "by order"))
    pairs = example_pairs(rows, "sft", "grpo", 4)
    assert [(p.before["arm"], p.after["arm"], p.after["query_id"]) for p in pairs] == [
        ("sft", "grpo", "a"), ("sft", "grpo", "d"), ("sft", "grpo", "e"), ("sft", "grpo", "b")
    ]  # fmt: skip
    assert len(example_pairs(rows, "sft", "grpo", 99)) == 5
    with pytest.raises(ValueError, match="no rollouts of the arm base; there are grpo, sft"):
        example_pairs(rows, "base", "grpo", 4)


def test_a_pair_shows_turns_children_output_and_answer():
    page = pairs_markdown(example_pairs([row("sft", "q", "gain"), row("grpo", "q", "gain")], "sft", "grpo", 1))
    assert page.startswith("## 1. Which \\*q\\*?\n\nmulti-paper, tier 2, query `q`, shown for: gain.\n")
    assert "> `p1` rain \\<b\\>fell\\</b\\>" in page
    assert "### grpo: lexical judge 0.45, evidence F1 0.25, answered, 2 turns, 1 children" in page
    grpo = page[page.index("### grpo") :]
    assert grpo.index("FINAL('x')") < grpo.index('- child, 0 turns, answered: \\["part"\\]') < grpo.index("1 passage")
    assert grpo.index("Turn 2") < grpo.index("Answer") < grpo.index('"x"')


@given(st.text(st.sampled_from("`a \n\x1b"), max_size=40))
def test_what_a_model_writes_stays_inside_its_block(text):
    page = pairs_markdown(example_pairs([row("sft", "q", "gain", text=text)], "sft", "sft", 1))
    lines = page[page.index("Turn 1") :].splitlines()
    fence = lines[2].removesuffix("text")
    closing = lines.index(fence, 3)
    assert "\n".join(lines[3:closing]) == text.strip().replace("\x1b", "␛")
    assert lines[closing + 1].startswith("- child")


def test_the_command_prints_them_and_says_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()
    nothing = runner.invoke(app, ["rollouts", "pairs"])
    assert nothing.exit_code == 2
    assert "make it: dvc repro evaluate" in nothing.output
    write_jsonl(tmp_path / "reports" / "rollouts.jsonl", [row("sft", "q", "gain"), row("grpo", "q", "gain")])
    assert "### grpo" in runner.invoke(app, ["rollouts", "pairs"]).output
    wrong = runner.invoke(app, ["rollouts", "pairs", "--before", "expert"])
    assert wrong.exit_code == 2
    assert "no rollouts of the arm expert" in wrong.output
