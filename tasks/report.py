"""Stage `report`: one page of everything for a person, and the result table as text.

Reads reports/evaluation.json and what else lies in reports/: rollouts.jsonl, training.json, sft.json, papers.json, ocr.json,
queries.json, distill.json. Writes reports/report.html.
"""

from __future__ import annotations

import datetime
import logging
import os
import subprocess
from pathlib import Path
from typing import Any

from rlm_core.evaluation.report import ReportData, render_report
from rlm_core.evaluation.table import render_table
from rlm_core.files import read_json, read_jsonl, write_text
from tasks.common import Stage, StageError, require, stage_main

log = logging.getLogger("rlm.stage")

REPORTS = Path("reports")
REPORT = REPORTS / "report.html"
COUNTS = ("papers", "ocr", "queries", "distill")


def run(stage: Stage) -> None:
    try:
        evaluation = read_json(require(REPORTS / "evaluation.json", "evaluate"))
        rollouts = REPORTS / "rollouts.jsonl"
        data = ReportData(
            evaluation=evaluation,
            params=stage.params,
            rollouts=list(read_jsonl(rollouts)) if rollouts.exists() else (),
            training=read_if_there("training"),
            sft=read_if_there("sft"),
            counts={name: read_if_there(name) for name in COUNTS},
            made=made(),
        )
    except ValueError as error:
        raise StageError(str(error)) from error
    page = render_report(data)
    write_text(REPORT, page)
    stage.log_metrics({"report_kib": len(page.encode()) / 1024})
    stage.log_artifact(REPORT)
    print(f"\n{render_table(evaluation)}\n\nReport: {REPORT.resolve()}")


def read_if_there(name: str) -> Any:
    """A report of another stage; None when that stage wrote none."""
    path = REPORTS / f"{name}.json"
    return read_json(path) if path.exists() else None


def made() -> dict[str, str]:
    """When and from which commit. `SOURCE_DATE_EPOCH` stands for the clock where it is set."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    now = datetime.datetime.fromtimestamp(int(epoch), datetime.UTC) if epoch else datetime.datetime.now(datetime.UTC)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    found = {"made": f"{now:%Y-%m-%d %H:%M} UTC"}
    return found | ({"commit": commit.stdout.strip()} if commit.returncode == 0 else {})


if __name__ == "__main__":
    stage_main("report", run)
