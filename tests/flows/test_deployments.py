"""prefect.yaml names flows that load, with parameters that their forms accept, on the two pools."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import yaml
from prefect.flows import load_flow_from_entrypoint

from flows.remote import DEPLOYMENT
from flows.ui import served_flows

ROOT = Path(__file__).resolve().parents[2]
FILE = yaml.safe_load((ROOT / "prefect.yaml").read_text())


@pytest.mark.parametrize("entry", FILE["deployments"], ids=lambda entry: entry["entrypoint"])
def test_a_deployment_loads_and_its_parameters_are_valid(entry: dict[str, object]) -> None:
    flow = load_flow_from_entrypoint(str(entry["entrypoint"]))
    assert entry["work_pool"] == {"name": entry["name"]}
    assert entry["name"] in ("cpu", "gpu")
    given = entry.get("parameters", {})
    assert isinstance(given, dict)
    # what a person must fill in has no default
    if not set(flow.parameters.required) - set(given):
        flow.validate_parameters(given)


def test_every_flow_is_deployed_and_served_once() -> None:
    deployed = Counter(load_flow_from_entrypoint(e["entrypoint"]).name for e in FILE["deployments"])
    served = Counter(flow.name for flow in served_flows())
    assert set(deployed.values()) == set(served.values()) == {1}
    assert set(deployed) == set(served) | {"stage"}
    assert {"pipeline", "synthesize", "distill", "train", "evaluate", "sweep", "ablation"} <= set(served)


def test_flows_ask_the_pool_for_a_deployment_that_exists() -> None:
    named = {f"{load_flow_from_entrypoint(e['entrypoint']).name}/{e['name']}" for e in FILE["deployments"]}
    assert DEPLOYMENT in named


def test_the_version_is_the_installed_one() -> None:
    import prefect

    assert FILE["prefect-version"] == prefect.__version__
