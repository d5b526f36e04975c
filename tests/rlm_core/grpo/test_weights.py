"""Weights of turns, with the sums beside them, and their invariants over random trees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from rlm_core.grpo import turn_samples
from rlm_core.params import GrpoParams
from rlm_core.records import Rollout, Turn

MakeTree = Callable[..., Rollout]


def weights_of(tree: Rollout, **config: object) -> list[float]:
    return [s.weight for s in turn_samples([tree], [1.0], GrpoParams.model_validate(config))]


def turn(tokens: int = 2, **fields: object) -> Turn:
    return Turn("x", prompt_ids=(1,), completion_ids=(2,) * tokens, logprobs=(-1.0,) * tokens, **fields)  # type: ignore[arg-type]


@st.composite
def trees(draw: st.DrawFn, depth: int = 3) -> Rollout:
    turns = tuple(turn(n) for n in draw(st.lists(st.integers(1, 5), min_size=1, max_size=4)))
    children = draw(st.lists(trees(depth=depth - 1), max_size=3)) if depth else []
    return Rollout(id=f"n{draw(st.integers(0, 10**9))}", turns=turns, children=tuple(children))


def levels(tree: Rollout) -> int:
    return 1 + max((levels(c) for c in tree.children), default=0)


def test_children_share_their_parents_unit(make_tree: MakeTree):
    tree = make_tree(turns=2, children=[make_tree(turns=1), make_tree(turns=4)])
    # root 1/2 each | first child 1/2 * 1/1 | second child 1/2 * 1/4 each
    assert weights_of(tree) == approx([0.5, 0.5, 0.5, 0.125, 0.125, 0.125, 0.125])


def test_mass_goes_down_any_depth(make_tree: MakeTree):
    tree = make_tree(1, [make_tree(2, [make_tree(1), make_tree(3)]), make_tree(1)])
    # root 1 | child 1/2 over 2 turns | its children 1/4 each, over 1 and 3 turns | child 1/2
    assert weights_of(tree) == approx([1, 0.25, 0.25, 0.25, *[1 / 12] * 3, 0.5])


def test_the_loss_is_a_mean_over_trees_that_have_an_advantage(make_tree: MakeTree):
    forest = [make_tree(2, id="a"), make_tree(1, id="b"), make_tree(1, id="c")]
    samples = turn_samples(forest, [0.5, None, -0.5])
    # 2 trees count: 1/2 * 1/2 each for a, 1/2 for c
    assert [(s.node_id, s.advantage, s.weight) for s in samples] == [
        ("a", 0.5, 0.25),
        ("a", 0.5, 0.25),
        ("c", -0.5, 0.5),
    ]


def test_children_of_a_failed_parent_get_its_negative_advantage(make_tree: MakeTree):
    tree = make_tree(1, [make_tree(1, [make_tree(2)])])
    assert [s.advantage for s in turn_samples([tree], [-0.75])] == [-0.75] * 4


def test_an_advantage_of_zero_is_a_value(make_tree: MakeTree):
    assert [s.weight for s in turn_samples([make_tree(1), make_tree(1)], [0.0, 1.0])] == [0.5, 0.5]


def test_constant_tree_mass(make_tree: MakeTree):
    tree = make_tree(1, [make_tree(1), make_tree(1, [make_tree(2)])])
    # masses 1 | 1/2 | 1/2 | 1/2: the sum is 2.5
    assert weights_of(tree, tree_mass="constant") == approx([0.4, 0.2, 0.2, 0.1, 0.1])


def test_no_division_and_root_only(make_tree: MakeTree):
    tree = make_tree(2, [make_tree(1), make_tree(2)])
    assert weights_of(tree, children="no_division") == approx([0.5, 0.5, 1, 0.5, 0.5])
    assert weights_of(tree, children="root_only") == approx([0.5, 0.5])


def test_token_mean_inside_a_node(make_tree: MakeTree):
    tree = make_tree(tokens=[1, 3], turns=2, children=[make_tree(tokens=[5])])
    # 4 tokens share 1: the turn of 3 gets 3/4
    assert weights_of(tree, token_aggregation="node_mean") == approx([0.25, 0.75, 1])


def test_constant_normaliser(make_tree: MakeTree):
    tree = make_tree(tokens=[1, 3], turns=2)
    # 1/2 * 1/10 and 1/2 * 3/10: turn_loss is a mean, so times the length it is the sum over 10
    assert weights_of(tree, token_aggregation="constant", token_normaliser=10) == approx([0.05, 0.15])


def test_masking_a_cut_turn_moves_no_other_weight():
    tree = Rollout("r", turns=(turn(), turn(finish_reason="length"), turn()))
    assert weights_of(tree) == approx([1 / 3] * 3)
    assert weights_of(tree, length_cut="mask") == approx([1 / 3] * 2)


def test_a_child_that_never_spoke_counts_among_its_siblings(make_tree: MakeTree):
    tree = make_tree(1, [make_tree(1), Rollout("silent")])
    assert weights_of(tree) == approx([1, 0.5])


@given(trees(), st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_a_nodes_mass_and_its_childrens_do_not_depend_on_their_number(tree: Rollout, lengths: list[int]):
    samples = turn_samples([tree], [1.0])
    assert sum(s.weight for s in samples[: len(tree.turns)]) == approx(1)
    other = replace(tree, turns=tuple(turn(n) for n in lengths))
    below = [s.weight for s in samples[len(tree.turns) :]]
    assert [s.weight for s in turn_samples([other], [1.0])[len(lengths) :]] == approx(below)
    for node in tree.walk():
        mass = sum(_own(tree, node, samples))
        shares = [sum(_own(tree, child, samples)) for child in node.children]
        assert sum(shares) == approx(mass if node.children else 0)


def _own(tree: Rollout, node: Rollout, samples: list) -> list[float]:  # type: ignore[type-arg]
    start = 0
    for other in tree.walk():
        if other is node:
            return [s.weight for s in samples[start : start + len(node.turns)]]
        start += len(other.turns)
    raise AssertionError


@given(trees(), st.integers(1, 5))
def test_a_root_with_k_identical_children_equals_the_root_with_one(child: Rollout, copies: int):
    def gathered(k: int) -> dict[int, float]:
        tree = Rollout("root", turns=(turn(1),), children=(child,) * k)
        own, below = turn_samples([tree], [1.0])[:1], turn_samples([tree], [1.0])[1:]
        sums: dict[int, float] = {-1: own[0].weight}
        for index, s in enumerate(below):
            place = index % (len(below) // k)
            sums[place] = sums.get(place, 0.0) + s.weight
        return sums

    assert gathered(copies) == approx(gathered(1))


@given(trees())
def test_constant_tree_mass_is_one_for_any_tree(tree: Rollout):
    assert sum(weights_of(tree, tree_mass="constant")) == approx(1)
    assert sum(weights_of(tree, tree_mass="constant", token_aggregation="node_mean")) == approx(1)


@given(trees())
def test_token_mean_gives_every_token_of_a_node_the_same_weight(tree: Rollout):
    samples = turn_samples([tree], [1.0], GrpoParams(token_aggregation="node_mean"))
    per_token = {s.weight / len(s.completion_ids) for s in samples[: len(tree.turns)]}
    assert max(per_token) == approx(min(per_token))


def test_unsampled_tokens_are_refused():
    no_ids = Rollout("r", turns=(Turn("hello"),))
    with pytest.raises(ValueError, match="rollout 'r' turn 0: 0 prompt and 0 completion token ids"):
        turn_samples([no_ids], [1.0])
    no_logprobs = Rollout("r", turns=(Turn("hi", prompt_ids=(1,), completion_ids=(2, 3), logprobs=(-1.0,)),))
    with pytest.raises(ValueError, match="1 logprobs for 2 tokens; request logprobs"):
        turn_samples([no_logprobs], [1.0])
    with pytest.raises(ValueError, match="1 rollouts but 2 advantages"):
        turn_samples([no_ids], [1.0, 2.0])
