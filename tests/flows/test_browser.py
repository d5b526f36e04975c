"""A person's view: a flow is started, and its run page in Prefect, its tasks and its artifacts are looked at in Chromium.

RLM_SCREENSHOTS names a folder that keeps the pictures. Skipped where there is no Chromium.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import browser
import pytest
from serving import Api, free_port, start_ui

pytestmark = [
    pytest.mark.proof,
    pytest.mark.skipif(browser.find() is None, reason="no chromium on the path (Debian: apt install chromium)"),
]


@pytest.fixture(scope="module")
def api(toy_project: Path) -> Iterator[Api]:
    port = free_port()
    process = start_ui(toy_project, prefect=port, mlflow=free_port(), seconds=600)
    yield Api(port)
    process.kill()


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    return Path(os.environ.get("RLM_SCREENSHOTS", tmp_path))


def test_the_pages_of_a_run(api: Api, tmp_path: Path, pictures: Path) -> None:
    run = api.start("pipeline/local", to_stage="parse", profile="smoke", gpu="here")
    assert api.end_of(run, 600) == "COMPLETED"
    api.tasks(run)
    link = api.artifacts(run)["mlflow-run"]["data"]

    site = str(api.client.base_url).removesuffix("/api/")
    with browser.page(tmp_path / "profile") as page:
        page.open(f"{site}/runs/flow-run/{run}")
        page.wait_for("papers-to-parse", "Completed", "Running stage 'papers'", "Artifacts")
        page.picture(pictures / "prefect-run.png")
        page.click("Task Runs")
        page.wait_for("papers-", "parse-")
        page.click("Artifacts")
        page.wait_for("mlflow-run", "rollouts", "with the judge's feedback")
        page.picture(pictures / "prefect-artifacts.png")

        deployment = api.get("/deployments/name/pipeline/local")
        page.open(f"{site}/deployments/deployment/{deployment['id']}/run")
        page.wait_for("from_stage", "overrides", "Values that differ from the profile")
        page.picture(pictures / "prefect-form.png")
        # an untouched form can be sent, and sends nothing that would replace a value
        page.click("Submit")
        sent = newest_run(api, not_this=run)
        assert "null" not in json.dumps(sent["parameters"]).lower(), sent["parameters"]
        assert api.end_of(sent["id"], 900) == "COMPLETED", api.logs(sent["id"])

        page.open(link[link.index("(") + 1 : -1])
        page.wait_for("pipeline", "grpo.lr")
        page.picture(pictures / "mlflow-run.png")


def newest_run(api: Api, *, not_this: str, seconds: float = 60) -> dict[str, Any]:
    deadline = time.monotonic() + seconds
    while True:
        rows = api.post("/flow_runs/filter", sort="EXPECTED_START_TIME_DESC")
        if found := [row for row in rows if row["id"] != not_this and row["parent_task_run_id"] is None]:
            return dict(found[0])
        assert time.monotonic() < deadline, "no run came of the form"
        time.sleep(0.5)
