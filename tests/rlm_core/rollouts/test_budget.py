"""Nested accounts: nothing overshoots, nothing is lost, siblings do not race."""

from __future__ import annotations

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm_core.rollouts import budget as module
from rlm_core.rollouts.budget import Budget, BudgetSpent


def make_budget(tokens: int = 1000, subcalls: int = 6, depth: int = 2, per_turn: int = 100) -> Budget:
    return Budget.of_tree(
        max_tokens=tokens, max_subcalls=subcalls, max_depth=depth, tokens_per_turn=per_turn, deadline=60.0
    )


def test_the_worked_example_holds() -> None:
    assert doctest.testmod(module).failed == 0


def test_turns_leave_the_reserve_for_the_last_call() -> None:
    budget = make_budget(tokens=250)  # reserve: min(100, 250 // 4) = 62
    assert budget.reserve == 62
    granted = budget.reserve_turn()
    assert (granted, budget.tokens) == (100, 150)
    budget.settle(granted, 90)
    assert budget.tokens == 160
    assert budget.reserve_turn() == 98  # 160 - 62
    budget.settle(98, 98)
    assert budget.turn_tokens() == 0
    with pytest.raises(BudgetSpent, match="tokens of this task are spent"):
        budget.reserve_turn()
    assert budget.reserve_turn(last=True) == 62


def test_children_get_equal_parts_and_leave_the_rest() -> None:
    root = make_budget()
    first, second, third = children = root.split(3, now=10.0)
    assert [c.tokens for c in children] == [300, 300, 300]  # (1000 - 100) / 3
    assert [c.subcalls for c in children] == [1, 1, 1]  # 6 - 3 children = 3 left, one each
    assert [c.depth_left for c in children] == [1, 1, 1]
    assert first.deadline == 10.0 + 0.9 * 50.0
    assert (root.tokens, root.subcalls) == (100, 0)
    second.settle(second.reserve_turn(), 40)
    for child in (first, second, third):
        root.take_back(child)
    assert (root.tokens, root.subcalls) == (960, 3)
    root.take_back(first)
    assert root.tokens == 960  # a second time gives nothing


def test_refusals_say_what_to_do_and_take_nothing() -> None:
    root = make_budget(tokens=500, subcalls=4)
    with pytest.raises(BudgetSpent, match="4 sub-calls are left, 5 asked for: ask fewer"):
        root.split(5, now=0.0)
    with pytest.raises(BudgetSpent, match="400 completion tokens are left, too few for 8"):
        make_budget(tokens=500, subcalls=20).split(8, now=0.0)
    (leaf,) = make_budget(depth=1).split(1, now=0.0)
    with pytest.raises(BudgetSpent, match="no child RLM is allowed at this depth"):
        leaf.split(1, now=0.0)
    assert leaf.reserve_calls(1) == 100  # plain model calls are allowed there
    with pytest.raises(BudgetSpent, match="no sub-calls are left"):
        make_budget(subcalls=0).reserve_calls(1)
    assert (root.tokens, root.subcalls) == (500, 4)


@given(
    tokens=st.integers(1, 5000),
    subcalls=st.integers(0, 30),
    plan=st.lists(
        st.tuples(st.sampled_from(["turn", "split", "calls"]), st.integers(1, 8), st.floats(0, 1)), max_size=30
    ),
)
def test_no_sequence_of_requests_overshoots(tokens: int, subcalls: int, plan: list[tuple[str, int, float]]) -> None:
    root = Budget.of_tree(max_tokens=tokens, max_subcalls=subcalls, max_depth=3, tokens_per_turn=64, deadline=1.0)
    spent = asked = 0
    for kind, count, share in plan:
        try:
            if kind == "turn":
                granted = root.reserve_turn()
                assert root.tokens >= root.reserve
                used = int(granted * share)
                root.settle(granted, used)
                spent += used
            elif kind == "split":
                for child in root.split(count, now=0.0):
                    granted = child.reserve_turn()
                    used = int(granted * share)
                    child.settle(granted, used)
                    spent += used
                    root.take_back(child)
                asked += count
            else:
                granted = root.reserve_calls(count)
                used = int(granted * share)
                for _ in range(count):
                    root.settle(granted, used)
                spent += used * count
                asked += count
        except BudgetSpent:
            pass
        assert 0 <= root.tokens == tokens - spent
        assert 0 <= root.subcalls == subcalls - asked
