"""The config of a rollout: defaults, params.yaml, bad values."""

from __future__ import annotations

import pytest

from rlm_core.params import Params, validate_params
from rlm_core.rollouts import RolloutConfig


def test_params_become_a_config() -> None:
    data = {
        "seed": 7,
        "repl": {"wall_seconds": 3, "memory_mb": 256, "output_chars": 999, "sandbox": "none"},
        "rollout": {"prompt": "plain", "max_turns": 6, "max_children": 5, "cue": "ephemeral", "wall_seconds": 60},
    }
    config = RolloutConfig.from_params(validate_params(data), temperature=0.3)
    assert (config.seed, config.temperature, config.top_p) == (7, 0.3, 1.0)
    assert (config.block_seconds, config.memory_mb, config.output_chars, config.sandbox) == (3, 256, 999, "none")
    assert (config.prompt, config.max_turns, config.max_children, config.wall_seconds) == ("plain", 6, 5, 60)
    assert (config.cue_kept, config.style.max_turns, config.style.output_chars) == (False, 6, 999)


def test_every_rollout_param_is_taken() -> None:
    config = RolloutConfig.from_params(Params())
    for name, value in Params().rollout.model_dump().items():
        assert getattr(config, name) == value


def test_bad_values_are_refused() -> None:
    for name, value in (("max_turns", 0), ("max_depth", -1), ("max_children", -1), ("max_tokens_per_turn", 0)):
        with pytest.raises(ValueError, match=rf"RolloutConfig\.{name} must be at least \d, got {value}"):
            RolloutConfig(**{name: value})
    with pytest.raises(ValueError, match="wall_seconds must be above 0"):
        RolloutConfig(wall_seconds=0)


def test_the_shape_names_all_fields() -> None:
    shape = RolloutConfig(temperature=0.1).shape
    assert shape["temperature"] == 0.1
    assert set(RolloutConfig.__dataclass_fields__) < set(shape)


def test_every_paper_that_is_asked_about_can_have_a_child():
    config = RolloutConfig(max_children=12)
    assert config.for_papers(24).max_children == 24
    assert config.for_papers(4) == config
    assert RolloutConfig(max_children=0).for_papers(24).max_children == 0  # none are allowed: none stay
