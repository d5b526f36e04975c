"""What is said follows from the intervals, and no more."""

from __future__ import annotations

from typing import Any

import pytest

from rlm_core.ablation.page import render_page
from rlm_core.ablation.summary import conclusion, summarise
from rlm_core.ablation.variants import PLANS, cell_params
from rlm_core.params import Params, Variant

PARAMS = Params()


def cell(variant: Variant, seed: int, rewards: list[float | None], children: float = 2.0) -> dict[str, Any]:
    questions = {f"q{i}": {"reward": r, "reward_greedy": r, "evidence_f1": r} for i, r in enumerate(rewards)}
    return {"variant": variant, "seed": seed, "sampled_tokens": 100, "updates": 2, "train_seconds": 1.0,
            "questions": questions, "children_mean": children, "judge": "lexical"}  # fmt: skip


def test_a_record_of_two_variants():
    low, high = [0.1, 0.2, 0.3, 0.4], [0.5, 0.6, 0.7, 0.8]
    cells = [cell("inherit", s, high) for s in (0, 1)] + [cell("sft_only", s, low) for s in (0, 1)]
    record = summarise(cells, PARAMS, judge="lexical")
    assert record["variants"]["inherit"]["reward"]["mean"] == pytest.approx(0.65)
    (compared,) = record["comparisons"]
    assert (compared["a"], compared["b"], compared["seeds"]) == ("inherit", "sft_only", [0, 1])
    assert compared["reward"] == pytest.approx({"mean": 0.4, "low": 0.4, "high": 0.4})
    assert record["conclusions"] == ["inherit scores above sft_only: +0.400 [+0.400, +0.400]."]
    assert ["inherit", 2] in record["missing"] and ["rejection", 0] in record["missing"]
    assert any("lexical" in line for line in record["limits"])


def test_seeds_that_one_variant_lacks_are_not_compared():
    cells = [cell("inherit", 0, [0.5]), cell("inherit", 1, [0.9]), cell("sft_only", 0, [0.4])]
    (compared,) = summarise(cells, PARAMS, judge="lexical")["comparisons"]
    assert compared["seeds"] == [0] and compared["reward"]["mean"] == pytest.approx(0.1)


def test_a_tie_says_what_it_does_not_exclude():
    row = {"a": "inherit", "b": "root_only", "reward": {"mean": 0.01, "low": -0.03, "high": 0.05}}
    assert conclusion(row) == (
        "inherit and root_only cannot be told apart: +0.010 [-0.030, +0.050]. A difference of up to 0.050 either way is "
        "not excluded."
    )
    assert "below" in conclusion({**row, "reward": {"mean": -0.2, "low": -0.3, "high": -0.1}})


def test_without_children_the_comparison_is_called_empty():
    record = summarise([cell("inherit", 0, [0.5, None], children=0.1)], PARAMS, judge="lexical")
    assert any("cannot differ" in line for line in record["limits"])
    assert record["variants"]["inherit"]["reward"]["mean"] == 0.5
    with pytest.raises(ValueError, match="no cell is finished"):
        summarise([], PARAMS, judge="lexical")


def test_the_page_holds_all_of_it_and_no_markup_from_names():
    cells = [cell("inherit", 0, [0.5, 0.6]), cell("sft_only", 0, [0.2, 0.1])]
    record = summarise(cells, PARAMS, judge="<b>judge</b>")
    page = render_page(record)
    assert "&lt;b&gt;judge" in page and "<b>judge" not in page
    for part in ("GRPO; children inherit", "inherit scores above sft_only", "What cannot", "Not finished"):
        assert part in page, part


def test_cells_differ_by_variant_and_seed_alone():
    made = {name: cell_params(PARAMS, name, 1) for name in PLANS}
    assert {p.seed for p in made.values()} == {PARAMS.seed + 1}
    assert made["frozen_child"].grpo.children == "frozen" and made["no_division"].grpo.children == "no_division"
    for params in made.values():
        assert params.grpo.max_sampled_tokens == PARAMS.ablation.sampled_tokens and params.grpo.eval_every == 0
        assert params.grpo.model_copy(update={"children": "inherit"}) == made["inherit"].grpo
