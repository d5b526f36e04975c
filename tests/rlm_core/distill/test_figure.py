"""The before-and-after figure: its numbers by hand, and that it is drawn whatever there is."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlm_core.distill.figure import TreeFacts, error_shares, facts_of, save_before_after
from rlm_core.records import ErrorClass, Judgement, Rollout, Turn, Usage


def test_facts_and_error_shares() -> None:
    child = Rollout("a.0", turns=(Turn(),))
    tree = Rollout(
        "a",
        turns=(Turn("ab", error=ErrorClass.CODE), Turn("c"), Turn()),
        children=(child,),
        usage=Usage(completion_tokens=70),
    )
    found = facts_of([tree, Rollout("b")], [Judgement(10, 6, 0.8), None])
    assert found == [TreeFacts(3, 70, 3, ("code", "none", "none", "none"), 0.8), TreeFacts(0, 0, 0, (), None)]
    shares = error_shares(found)
    assert shares["code"] == 1 / 4
    assert sum(shares.values()) == 1 / 4
    assert "none" not in shares
    assert set(error_shares([]).values()) == {0.0}


@pytest.mark.parametrize("tokens", [0, 70])
@pytest.mark.parametrize("kept", [[True, False], [False, False]])
def test_the_figure_is_drawn(tmp_path: Path, kept: list[bool], tokens: int) -> None:
    facts = [TreeFacts(3, tokens, 300, ("code", "none"), 0.8), TreeFacts(1, 0, 9, ("none",), None)]
    save_before_after(facts, kept, tmp_path / "reports" / "distill.png")
    assert (tmp_path / "reports" / "distill.png").read_bytes()[:4] == b"\x89PNG"
