"""params.yaml: one truth, and every fault is told with its key, what was got and what is allowed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rlm_core.params import ArmParams, Params, ParamsError, load_params, validate_params

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("profile", ["smoke", "cpu", "gpu", "mrcr", "rlm-paper"])
def test_profiles_are_valid_and_complete(profile: str) -> None:
    import yaml

    path = ROOT / "profiles" / f"{profile}.yaml"
    params = load_params(path)
    # DVC needs every section written out: what is in the file is all there is
    assert yaml.safe_load(path.read_text()) == params.model_dump(mode="json")


def test_the_default_is_the_cpu_profile() -> None:
    assert load_params(ROOT / "params.yaml") == load_params(ROOT / "profiles" / "cpu.yaml")


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({"grpo": {"stepz": 3}}, ["grpo.stepz: unknown key", "steps"]),
        ({"gropo": {}}, ["gropo: unknown key", "grpo"]),
        ({"grpo": {"steps": "many"}}, ["grpo.steps:", "valid integer", "'many'"]),
        ({"grpo": {"steps": 0}}, ["grpo.steps:", "greater than or equal to 1", "got 0"]),
        ({"teach": {"noise": 1.5}}, ["teach.noise:", "less than or equal to 1", "1.5"]),
        ({"ocr": {"engine": "magic"}}, ["ocr.engine:", "'rapidocr'", "'magic'"]),
        ({"ocr": {"engine": "surya"}}, ["ocr.surya_url"]),
        ({"judge": {"kind": "rubric"}}, ["judge.endpoint"]),
        ({"teach": {"policy": "endpoint"}}, ["teach.endpoint"]),
        ({"queries": {"writer": "endpoint"}}, ["queries.endpoint"]),
        ({"queries": {"val_share": 0.6, "test_share": 0.5}}, ["nothing to train on"]),
        (
            {"rollout": {"max_tokens_per_turn": 4096}},
            ["rollout.max_tokens_per_turn (4096)", "serve.max_model_len (2048)"],
        ),
        ({"evaluate": {"arms": ["base", "magic"]}}, ["evaluate.arms.1:", "'magic'"]),
        ({"evaluate": {"arms": ["base", {"name": "x", "oops": 1}]}}, ["evaluate.arms.1.oops: unknown key", "harness"]),
        ({"evaluate": {"arms": [{"name": "grpo"}]}}, ["evaluate.arms.0:", "'grpo' is a named arm"]),
        ({"evaluate": {"arms": [{"name": "a b"}]}}, ["evaluate.arms.0.name:", "'a b'"]),
        ({"evaluate": {"arms": [{"name": "x", "policy": "endpoint"}]}}, ["evaluate.arms.0:", "endpoint go together"]),
        ({"evaluate": {"arms": [{"name": "x", "policy": "expert", "temperature": 0}]}}, ["has no temperature"]),
        ({"evaluate": {"arms": [{"name": "x", "harness": "codeact", "recursion": False}]}}, ["are for harness 'rlm'"]),
        ({"evaluate": {"arms": [{"name": "x", "context_tokens": 900}]}}, ["context_tokens is for policy 'endpoint'"]),
        ({"evaluate": {"arms": ["base", "base"]}}, ["evaluate.arms names base twice"]),
        ({"evaluate": {"arms": []}}, ["evaluate.arms is empty"]),
        ({"evaluate": {"temperatures": [-1]}}, ["evaluate.temperatures.0:", "greater than or equal to 0"]),
    ],
)
def test_faults_are_told(data: dict[str, object], told: list[str]) -> None:
    with pytest.raises(ParamsError) as error:
        validate_params(data, source="params.yaml")
    for words in ["params.yaml", *told]:
        assert words in str(error.value)


def test_arms_are_names_or_sections_and_stay_as_they_were_written() -> None:
    endpoint = {"base_url": "http://h/v1", "model": "big"}
    arms = ["base", {"name": "big", "policy": "endpoint", "endpoint": endpoint, "strategy": False}]
    params = validate_params({"evaluate": {"arms": arms, "temperatures": [0, 0.5]}})
    again = validate_params(params.model_dump(mode="json"))
    assert again == params
    assert params.evaluate.arms[0] == "base"
    big = params.evaluate.arms[1]
    assert isinstance(big, ArmParams)
    assert big.endpoint is not None
    assert big.endpoint.model == "big"


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(ParamsError) as error:
        validate_params({"seed": -1, "sft": {"lr": 0, "oops": 1}})
    assert "3 fault(s)" in str(error.value)


def test_a_missing_or_broken_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(ParamsError, match="no such params file"):
        load_params(tmp_path / "none.yaml")
    (tmp_path / "broken.yaml").write_text("a: [1,")
    with pytest.raises(ParamsError, match="not YAML"):
        load_params(tmp_path / "broken.yaml")
    (tmp_path / "list.yaml").write_text("- 1")
    with pytest.raises(ParamsError, match="expected sections"):
        load_params(tmp_path / "list.yaml")


BAD_FILES = {
    "no UTF-8": (b"seed: 1 # \xff\n", "not text in UTF-8"),
    "UTF-16": ("seed: 1\n".encode("utf-16"), "save it as UTF-8"),
    "a key twice": (b"seed: 1\ngrpo: {}\nseed: 2\n", "the key 'seed' stands twice, in lines 1 and 3: keep one"),
    "a key twice inside": (b"grpo: {steps: 1, steps: 2}\n", "the key 'steps' stands twice"),
    "a list": (b"- seed\n", "expected sections like 'papers:', got list"),
    "a section as a list": (b"grpo: [1]\n", "grpo: Input should be a valid dictionary"),
    "infinite": (b"sft: {lr: .inf}\n", "sft.lr: Input should be a finite number"),
    "not a number": (b"repl: {wall_seconds: .nan}\n", "repl.wall_seconds: Input should be a finite number"),
    "huge seed": (b"seed: 99999999999999999999\n", "seed: Input should be less than 4294967296"),
    "huge memory": (b"repl: {memory_mb: 99999999999999999999}\n", "repl.memory_mb: Input should be less than"),
    "thousands of digits": (b"seed: " + b"9" * 6000 + b"\n", "Exceeds the limit"),
    "nested without end": (b"seed: " + b"[" * 3000 + b"]" * 3000, "nested without end"),
    "holds itself": (b"grpo: &a\n  steps: *a\n", "grpo.steps: Input should be a valid integer"),
    "code": (b"seed: !!python/object/apply:os.getpid []\n", "could not determine a constructor"),
    "escapes": (b'"\\e[31mred": 1\n', "\u241b[31mred: unknown key"),
}


@pytest.mark.parametrize("kind", BAD_FILES)
def test_whatever_a_params_file_holds_its_name_and_fault_are_told(kind: str, tmp_path: Path) -> None:
    data, told = BAD_FILES[kind]
    path = tmp_path / "params.yaml"
    path.write_bytes(data)
    with pytest.raises(ParamsError) as error:
        load_params(path)
    assert str(path) in str(error.value)
    assert told in str(error.value)


def test_what_grew_by_anchors_is_told_in_short(tmp_path: Path) -> None:
    path = tmp_path / "params.yaml"
    layers = ["a: &a [1]", *(f"{n}: &{n} [{', '.join([f'*{m}'] * 30)}]" for m, n in ("ab", "bc", "cd", "de"))]
    path.write_text("\n".join([*layers, "seed: *e"]))
    with pytest.raises(ParamsError, match="seed: Input should be a valid integer") as error:
        load_params(path)
    assert len(str(error.value)) < 4000


def test_a_folder_in_place_of_params_is_told(tmp_path: Path) -> None:
    with pytest.raises(ParamsError, match="cannot be read"):
        load_params(tmp_path)


def test_every_field_says_what_it_does() -> None:
    """The forms of the UI and `params describe` show these texts."""
    silent = [
        f"{section}.{key}"
        for section, field in Params.model_fields.items()
        for key, inner in getattr(type(field.default), "model_fields", {}).items()
        if not inner.description
    ]
    assert silent == []


def _modules_after(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(' '.join(sorted({{m.split('.')[0] for m in sys.modules}})))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(run.stdout.split())


def test_params_import_no_torch() -> None:
    assert not _modules_after("import rlm_core.params") & {"torch", "transformers", "numpy"}


def test_rlm_core_imports_no_orchestrator() -> None:
    names = [
        ".".join(p.relative_to(ROOT).with_suffix("").parts)
        for p in sorted((ROOT / "rlm_core").rglob("*.py"))
        if p.name != "__main__.py"
    ]
    names = [n.removesuffix(".__init__") for n in names]
    loaded = _modules_after("\n".join(f"import {n}" for n in names))
    assert not loaded & {"prefect", "dvc", "mlflow", "tasks", "flows"}


def test_flows_import_no_model_library() -> None:
    assert not _modules_after("import flows.pipeline") & {"torch", "transformers", "vllm", "trl"}
