"""A person's view in Chromium: the form of a flow, a mistake in it, the run that it starts, two runs compared, the report.

Servers, flows, DVC and MLflow are real; the stages take no time (toy_stage.py). RLM_SCREENSHOTS names a folder that keeps
the pictures. Skipped where there is no Chromium.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import browser
import pytest
from serving import Api, free_port, start_ui
from toy_stage import EVALUATION

from rlm_core.evaluation.report import render_report
from rlm_core.files import write_json
from tests.stubs.report import data

pytestmark = [
    pytest.mark.proof,
    pytest.mark.skipif(browser.find() is None, reason="no chromium on the path (Debian: apt install chromium)"),
]

FORM_FIELD = """(names => names.reduce((at, name) => [...at.querySelectorAll('.schema-form-property')].find(
    e => e.querySelector('.schema-form-property__label').innerText.trim() === `${name} (Optional)`), document))"""
"""A field of Prefect's form, by the names of the sections around it and its own."""


@dataclass(frozen=True)
class Ui:
    api: Api
    site: str
    project: Path


@pytest.fixture(scope="module")
def ui(toy_project: Path) -> Iterator[Ui]:
    """`make ui` in a project that has a result and a report from an earlier run."""
    write_json(toy_project / "reports" / "evaluation.json", EVALUATION)
    (toy_project / "reports" / "report.html").write_text(render_report(data()))
    port = free_port()
    process = start_ui(toy_project, prefect=port, mlflow=free_port(), seconds=1200)
    yield Ui(Api(port), f"http://127.0.0.1:{port}", toy_project)
    process.kill()


@pytest.fixture
def page(tmp_path: Path) -> Iterator[browser.Page]:
    with browser.page(tmp_path / "profile") as tab:
        yield tab


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(os.environ.get("RLM_SCREENSHOTS") or tmp_path_factory.mktemp("pictures"))


def field(*names: str, part: str) -> str:
    """JavaScript for the input or select of a form's field."""
    return f"{FORM_FIELD}({json.dumps(names)}).querySelector('{part}')"


def test_a_form_refuses_a_bad_value_and_starts_a_good_one(ui: Ui, page: browser.Page, pictures: Path) -> None:
    deployment = ui.api.get("/deployments/name/pipeline/local")
    page.open(f"{ui.site}/deployments/deployment/{deployment['id']}/run")
    page.wait_for("from_stage", "Values that differ from the profile", "Where the values come from:")
    packing = f"[...{field('overrides', 'Grpo', 'Packing', part='select')}.options].map(o => o.value)"
    assert page.run(packing) == ["auto", "tree", "chain", "none"]
    assert "smoke" in page.run(f"[...{field('profile', part='select')}.options].map(o => o.value)")
    page.choose(field("profile", part="select"), "smoke")
    page.choose(field("to_stage", part="select"), "parse")

    steps = field("overrides", "Grpo", "Steps", part="input")
    page.write(steps, "0")
    page.click("Submit")
    page.wait_for("Validation failed for field 'overrides.grpo.steps'", "0 is less than the minimum of 1")
    page.picture(pictures / "form.png")
    assert ui.api.post("/flow_runs/count") == 0

    page.write(steps, "1")
    page.click("Submit")
    page.wait_for("scheduled to start now", "View run")
    (run,) = ui.api.post("/flow_runs/filter")
    # what was left alone is not sent, so that nothing replaces the profile's values
    assert run["parameters"]["profile"] == "smoke" and run["parameters"]["to_stage"] == "parse"
    assert run["parameters"].get("overrides") == {"grpo": {"steps": 1}}
    assert ui.api.end_of(run["id"], 1500) == "COMPLETED", ui.api.logs(run["id"])


def test_the_page_of_a_run_shows_stages_logs_and_artifacts(ui: Ui, page: browser.Page, pictures: Path) -> None:
    (run,) = ui.api.post("/flow_runs/filter")
    page.open(f"{ui.site}/runs/flow-run/{run['id']}")
    page.wait_for("papers-to-parse", "Completed", "Running stage 'papers'", "is done (dvc.lock ", "Artifacts")
    page.picture(pictures / "prefect.png")
    page.click("Task Runs")
    page.wait_for("papers-", "parse-")
    page.click("Parameters")
    page.wait_for('"profile": "smoke"', '"steps": 1')
    page.click("Artifacts")
    page.wait_for("mlflow-run", "rollouts", "results", "report", "with the judge's feedback")
    page.picture(pictures / "prefect-artifacts.png")
    artifacts = ui.api.artifacts(run["id"])
    assert {"mlflow-run", "results", "report"} <= artifacts.keys()
    results = artifacts["results"]
    page.open(f"{ui.site}/artifacts/artifact/{results['id']}")
    page.wait_for("Judge: toy, n = 4", "0.500 [0.400, 0.600]")


def test_two_runs_are_compared_in_mlflow(ui: Ui, page: browser.Page, pictures: Path) -> None:
    (first,) = ui.api.post("/flow_runs/filter")
    second = ui.api.start("pipeline/local", to_stage="parse", overrides={"grpo": {"lr": 0.001}})
    assert ui.api.end_of(second, 1500) == "COMPLETED", ui.api.logs(second)
    assert {state["name"] for state in ui.api.tasks(second).values()} == {"Cached"}  # no stage of these reads grpo.lr

    links = [ui.api.artifacts(run)["mlflow-run"]["data"] for run in (first["id"], second)]
    experiment, runs = links[0].rpartition("/runs/")[0], [link.rpartition("/")[2].rstrip(")") for link in links]
    site, _, number = experiment[experiment.index("(") + 1 :].rpartition("experiments/")
    page.open(f'{site}compare-runs?runs={json.dumps(runs)}&experiments=["{number}"]')
    page.wait_for("Comparing 2 Runs from 1 Experiment", "grpo.lr\t5e-05\t0.001", "grpo.judge_mean", seconds=300)
    page.click("Scatter Plot")
    page.picture(pictures / "mlflow-compare.png")


def test_the_report_opens_and_folds_without_an_error(ui: Ui, page: browser.Page, pictures: Path) -> None:
    newest = ui.api.post("/flow_runs/filter", sort="EXPECTED_START_TIME_DESC")[0]
    text = ui.api.artifacts(newest["id"])["report"]["data"]
    address = text[text.index("(file://") + 1 : text.index("/report.html)") + len("/report.html")]
    page.open(address)
    page.wait_for("lexical", seconds=60)
    folded = page.run("document.querySelectorAll('details:not([open])').length")
    assert folded > 0
    page.press("document.querySelector('details:not([open]) > summary')")
    assert page.run("document.querySelectorAll('details:not([open])').length") == folded - 1
    page.picture(pictures / "report.png")
    assert page.faults() == []
