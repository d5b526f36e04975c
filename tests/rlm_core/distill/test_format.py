"""Format success: which prompts are continued, and what counts, with a model that says what the test wants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from rlm_core.distill.format import FormatSet, format_set, format_success
from rlm_core.policies import ChatRenderer, load_tokenizer, materialise_model, stop_ids

MODELS = Path(__file__).resolve().parents[3] / ".cache" / "models"
CODE = "```python\nprint(search('rain'))\n```"


def test_prompts_are_distinct_and_spread() -> None:
    turns = [([n], [5] * n) for n in (1, 2, 3, 4, 5)] + [([1], [9])]
    assert format_set(turns, 3) == FormatSet(((1,), (3,), (5,)), 10)
    assert format_set(turns, 99).prompts == ((1,), (2,), (3,), (4,), (5,))
    assert format_set(turns, 1).prompts == ((1,),)
    assert format_set(turns, 0) == format_set([], 4) == FormatSet((), 0)


class Says:
    """Continues prompt [n] with the n-th text; cut at the tokens allowed."""

    device = torch.device("cpu")
    training = True

    def __init__(self, *said: list[int]) -> None:
        self._said = said
        self.modes: list[bool] = []

    def eval(self) -> None:
        self.modes.append(False)

    def train(self, mode: bool) -> None:
        self.modes.append(mode)

    def generate(self, *, input_ids: torch.Tensor, max_new_tokens: int, **options: Any) -> torch.Tensor:
        assert options["do_sample"] is False
        said = self._said[int(input_ids[0, 0])][:max_new_tokens]
        return torch.cat([input_ids, torch.tensor([said])], dim=1)


def test_what_counts() -> None:
    folder = materialise_model("tiny-random", folder=MODELS)
    renderer, ends = ChatRenderer(load_tokenizer(folder)), stop_ids(folder)

    def turn(text: str) -> list[int]:
        return list(renderer.completion_ids(text))

    whole, prose, broken = turn(CODE), turn("I think it rains."), turn("```python\nprint((\n```")
    answer, unended = turn("FINAL_VAR(found)"), turn(CODE)[:-1]
    model = Says(whole, prose, broken, answer, unended)
    chosen = FormatSet(tuple((n,) for n in range(5)), 64)
    assert format_success(model, renderer.tokenizer, chosen, ends) == pytest.approx(2 / 5)  # the code and the answer
    assert model.modes == [False, True]  # training goes on as before
    cut = FormatSet(((0,),), 3)
    assert format_success(model, renderer.tokenizer, cut, ends) == 0.0
