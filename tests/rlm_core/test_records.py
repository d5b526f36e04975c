"""Records survive the way to a file and back, and fill in what an outside row leaves out."""

from __future__ import annotations

import json

import pytest

from rlm_core.records import ErrorClass, Evidence, Query, Rollout, Span, Status, Turn, Usage, tier_of


def test_a_bare_row_gets_defaults_parents_and_depths() -> None:
    turn = {"prompt_ids": [1, 2], "completion_ids": [3], "logprobs": [-0.5], "text": "x", "observation": ""}
    tree = Rollout.from_dict(
        {
            "id": "r",
            "turns": [turn],
            "children": [{"id": "r.0", "turns": [turn], "children": [{"id": "r.0.0", "turns": []}]}],
        }
    )
    assert [(n.id, n.parent_id, n.depth) for n in tree.walk()] == [("r", None, 0), ("r.0", "r", 1), ("r.0.0", "r.0", 2)]
    assert tree.turns[0].completion_ids == (3,)
    assert tree.turns[0].error is ErrorClass.NONE


def test_a_row_without_id_is_refused() -> None:
    with pytest.raises(ValueError, match="needs an 'id'"):
        Rollout.from_dict({"turns": []})


def test_rollouts_survive_json() -> None:
    turn = Turn("t", "o", (1,), (2, 3), (-0.1, -0.2), cue="Turn 1", error=ErrorClass.CODE, weights_version=4)
    child = Rollout("a.0", parent_id="a", depth=1, parent_turn=0, turns=(turn,), status=Status.OUT_OF_TURNS)
    tree = Rollout(
        "a",
        opening=(("system", "s"), ("user", "u")),
        turns=(turn, turn),
        children=(child,),
        answer=["x"],
        usage=Usage(turns=3),
    )
    assert Rollout.from_dict(json.loads(json.dumps(tree.to_dict()))) == tree


def test_queries_survive_json_and_leave_their_context_out() -> None:
    span = Span(3, 9, 0.9, ((3, 5), (7, 9)))
    query = Query(
        "q", "why?", "multi", "2", ("a", "b"), (Evidence("a", "gold", span), Evidence("b", "more")), context={"a": 1}
    )
    row = json.loads(json.dumps(query.to_dict()))
    assert "context" not in row
    back = Query.from_dict(row)
    assert back.evidence == query.evidence
    assert back.gold == ["gold", "more"]


def test_usage_adds_but_wall_time_stays() -> None:
    total = Usage(completion_tokens=5, wall_seconds=2.0).plus(Usage(completion_tokens=7, children=1, wall_seconds=9.0))
    assert total == Usage(completion_tokens=12, children=1, wall_seconds=2.0)


@pytest.mark.parametrize(("papers", "tier"), [(1, "1"), (2, "2"), (3, "3-4"), (4, "3-4"), (5, "5+"), (9, "5+")])
def test_tiers(papers: int, tier: str) -> None:
    assert tier_of(papers) == tier


def test_no_papers_have_no_tier() -> None:
    with pytest.raises(ValueError, match="at least 1 paper"):
        tier_of(0)
