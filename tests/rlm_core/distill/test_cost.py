"""What a teacher may cost at most, and what is projected from its first trees."""

from __future__ import annotations

import pytest

from rlm_core.distill.cost import Meter, Tokens, describe, most_tokens, used_by
from rlm_core.params import EndpointParams
from rlm_core.prompts import Allowance, Task, opening
from rlm_core.records import Query, Rollout, Usage
from rlm_core.rollouts import RolloutConfig

PRICED = EndpointParams(base_url="http://127.0.0.1:9/v1", model="m", price_in_per_million=2, price_out_per_million=10)
FREE = EndpointParams(base_url="http://127.0.0.1:9/v1", model="m")


def tree(prompt: int, completion: int) -> Rollout:
    return Rollout("q.0", usage=Usage(prompt_tokens=prompt, completion_tokens=completion))


def test_the_bound_by_hand() -> None:
    config = RolloutConfig(max_turns=1, max_depth=0, max_tokens_per_turn=30, output_chars=60, max_tokens=1000)
    query = Query("q", "Why?", context="a text")
    head = sum(len(c) for _, c in opening(Task("Why?", "a text"), config.style, Allowance(64, 0))) / 3
    # two calls: the opening; the opening, 30 tokens said, 60 / 3 shown, 64 of cue
    assert most_tokens(query, config) == Tokens(pytest.approx(2 * head + 30 + 20 + 64), 60)


def test_children_count_and_the_trees_own_limit_holds() -> None:
    config = RolloutConfig(max_turns=2, max_depth=1, max_children=3, max_tokens_per_turn=100, max_tokens=500)
    query = Query("q", "Why?", context="a text")
    assert most_tokens(query, config).completion == 500  # not 4 nodes x 3 calls x 100
    alone = RolloutConfig(max_turns=2, max_depth=0, max_children=3, max_tokens_per_turn=100, max_tokens=500)
    assert most_tokens(query, alone).prompt < most_tokens(query, config).prompt / 3


def test_the_projection_waits_for_the_pilot() -> None:
    meter = Meter(PRICED, num_missing=40)
    for _ in range(7):
        meter.add(tree(1000, 100))
    assert meter.projected is None
    assert meter.over(0.001) is None
    meter.add(tree(1000, 100))
    assert meter.projected == Tokens(40_000, 4_000)
    # 40,000 x 2 / 1e6 + 4,000 x 10 / 1e6
    assert meter.over(0.1) == pytest.approx(0.12)
    assert meter.over(0.13) is None
    assert meter.over(None) is None


def test_fewer_trees_than_a_pilot_are_projected_at_the_end() -> None:
    meter = Meter(PRICED, num_missing=2)
    meter.add(tree(10, 1))
    assert meter.projected is None
    meter.add(tree(30, 3))
    assert meter.projected == Tokens(40, 4) == used_by([tree(10, 1), tree(30, 3)])


def test_unknown_prices_are_said_to_be_unknown() -> None:
    assert describe(Tokens(1_200_000, 80_000), PRICED) == "1,200,000 + 80,000 tokens, cost 3.20"
    assert describe(Tokens(5, 6), FREE) == "5 + 6 tokens, cost unknown"
    assert describe(Tokens(5, 6), None) == "5 + 6 tokens"
    assert FREE.cost(1, 1) is None
