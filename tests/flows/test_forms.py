"""Forms come from the params models; a profile with overrides becomes whole, valid params."""

from __future__ import annotations

import json

import pytest
from pydantic import BaseModel, ValidationError

from flows.forms import Overrides, described, merged, profile_names, resolve
from flows.sweep import Variant, check_names, combined
from rlm_core.params import Params, ParamsError, Section, load_params


def test_every_field_of_the_params_is_in_the_form_with_its_meaning_and_range() -> None:
    form, whole = Overrides.model_json_schema(), Params.model_json_schema()
    sections = [name for name, field in Params.model_fields.items() if isinstance(field.default, Section)]
    assert len(sections) > 10
    for name in sections:
        model = type(Params.model_fields[name].default).__name__
        shown = form["$defs"][f"{model.removesuffix('Params')}Overrides"]["properties"]
        known = whole["$defs"][model]["properties"]
        assert shown.keys() == known.keys()
        for key in known:
            rest = {k: v for k, v in known[key].items() if k != "default"}
            if rest.get("type") == "boolean":
                rest |= {"type": "string", "enum": ["true", "false"]}
            # an endpoint, say, is partial too: what is not given keeps the profile's value
            same = json.dumps(shown[key], sort_keys=True).replace("Overrides", "Params")
            assert same == json.dumps(rest, sort_keys=True), f"{name}.{key}"
    assert "required" not in form


def test_only_what_was_given_replaces_the_profile() -> None:
    smoke = load_params("profiles/smoke.yaml")
    assert resolve("smoke") == smoke
    changed = resolve("smoke", Overrides.model_validate({"grpo": {"lr": 0.5}, "papers": {"max_papers": 3}, "seed": 0}))
    assert (changed.grpo.lr, changed.papers.max_papers, changed.seed) == (0.5, 3, 0)
    assert changed.grpo.steps == smoke.grpo.steps
    # null is a value like any other
    assert resolve("smoke", Overrides.model_validate({"evaluate": {"max_queries": None}})).evaluate.max_queries is None


@pytest.mark.parametrize(
    "bad", [{"grpo": {"steps": 0}}, {"grpo": {"stepz": 3}}, {"grp": {}}, {"ocr": {"engine": "eye"}}]
)
def test_a_bad_value_is_refused_by_the_form(bad: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Overrides.model_validate(bad)


def test_values_that_contradict_each_other_are_told_with_their_source() -> None:
    over = Overrides.model_validate({"judge": {"kind": "rubric"}})
    with pytest.raises(ParamsError, match=r"(?s)profile 'cpu' with overrides.*judge.endpoint"):
        resolve("cpu", over)


def test_an_endpoint_can_be_given_whole_or_in_part() -> None:
    whole = {"judge": {"kind": "rubric", "endpoint": {"base_url": "http://h/v1", "model": "m"}}}
    params = resolve("smoke", Overrides.model_validate(whole))
    assert params.judge.endpoint is not None
    assert (params.judge.endpoint.model, params.judge.endpoint.max_retries) == ("m", 5)
    gpu = resolve("gpu", Overrides.model_validate({"judge": {"endpoint": {"timeout_seconds": 7}}}))
    assert gpu.judge.endpoint is not None
    assert gpu.judge.endpoint.timeout_seconds == 7
    assert gpu.judge.endpoint.model == load_params("profiles/gpu.yaml").judge.endpoint.model  # type: ignore[union-attr]


def test_profiles_are_the_files() -> None:
    assert {"current", "smoke", "cpu", "gpu"} <= set(profile_names())


def test_merging_goes_section_by_section() -> None:
    assert merged({"a": {"b": 1, "c": [1, 2]}, "d": 1}, {"a": {"c": [3]}}) == {"a": {"b": 1, "c": [3]}, "d": 1}
    assert merged({"e": None, "f": {"x": 1}}, {"e": {}, "f": {}}) == {"e": None, "f": {"x": 1}}
    assert merged({"e": None}, {"e": {"base_url": "x"}}) == {"e": {"base_url": "x"}}


def test_meanings_reach_the_docstring() -> None:
    @described
    def flow(force: bool, other: int) -> None:
        """Does it."""

    assert flow.__doc__ is not None
    assert "Args:\n    force: Run the stages also" in flow.__doc__
    assert "other" not in flow.__doc__


def test_variants_have_names_of_their_own_and_params_of_their_own() -> None:
    low, high = (Variant(name=n, overrides={"grpo": {"lr": lr}}) for n, lr in (("low", 0.1), ("high", 0.2)))
    base = resolve("smoke", Overrides.model_validate({"grpo": {"steps": 7}}))
    assert [combined(base, v).grpo.lr for v in (low, high)] == [0.1, 0.2]
    assert combined(base, low).grpo.steps == 7
    check_names([low, high])
    with pytest.raises(ValueError, match="given twice: low"):
        check_names([low, low])
    with pytest.raises(ValidationError):
        Variant(name="../out")


def test_overrides_survive_json() -> None:
    """As Prefect stores them: only what was given."""
    over = Overrides.model_validate({"grpo": {"lr": 0.5}})
    assert isinstance(over, BaseModel)
    assert over.model_dump(mode="json") == {"grpo": {"lr": 0.5}}


def test_no_override_is_a_switch_which_would_send_false_untouched() -> None:
    schema = Overrides.model_json_schema()
    sections = {name: node for name, node in schema["$defs"].items() if name.endswith("Overrides")} | {"": schema}
    assert len(sections) > 15
    for section, node in sections.items():
        for key, shown in node["properties"].items():
            assert "boolean" not in [kind.get("type") for kind in (shown, *shown.get("anyOf", ()))], f"{section}.{key}"
    strategy = schema["$defs"]["RolloutOverrides"]["properties"]["strategy"]
    assert strategy["enum"] == ["true", "false"] and strategy["description"]
    for told, value in (("true", True), ("false", False), (True, True), (False, False)):
        chosen = Overrides.model_validate({"rollout": {"strategy": told}})
        assert resolve("smoke", chosen).rollout.strategy is value
        assert chosen.model_dump(mode="json") == {"rollout": {"strategy": value}}
