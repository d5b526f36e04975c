"""Stage `queries`: questions with ground-truth evidence, aligned to the parser's text and split by group.

Reads data/groups.jsonl, data/ocr/, data/parsed/; writes data/queries/{train,val,test}.jsonl and reports/queries.json.
The writers `mrcr` and `longbench-pro` read none of these: they put what is asked about in data/queries/contexts/.
Replies of an endpoint writer are kept in .cache/queries/ and not paid for again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlm_core.evaluation.benchmarks import longbench_queries, mrcr_queries
from rlm_core.files import read_jsonl, write_json, write_jsonl
from rlm_core.papers import load_library
from rlm_core.papers.records import Paper
from rlm_core.synthesis import QueryReport, write_queries
from rlm_core.synthesis.chat import ChatError
from rlm_core.synthesis.splits import SPLITS
from tasks.common import Stage, StageError, require, stage_main
from tasks.contexts import write_contexts

log = logging.getLogger("rlm.queries")

GROUPS = Path("data/groups.jsonl")
OCR = Path("data/ocr")
PARSED = Path("data/parsed")
OUT = Path("data/queries")
REPORT = Path("reports/queries.json")
ADVISED_TEST = 128
"""Test questions under which differences between arms drown in noise."""


def run(stage: Stage) -> None:
    made: dict[str, Paper] = {}
    if stage.params.queries.writer == "mrcr":
        report, made = make_conversations(stage)
    elif stage.params.queries.writer == "longbench-pro":
        report, made = take_documents(stage)
    else:
        report = write_about_papers(stage)
    _check(report)
    write_contexts(made)
    for split, queries in report.queries.items():
        write_jsonl(OUT / f"{split}.jsonl", [q.to_dict() for q in queries])
    figures = report.to_dict()
    write_json(REPORT, figures)
    for warning in report.warnings:
        log.warning("%s", warning)
    stage.log_metrics(metrics_of(figures))
    stage.log_artifact(REPORT)


def write_about_papers(stage: Stage) -> QueryReport:
    groups = list(read_jsonl(require(GROUPS, "groups")))
    params = stage.params.queries
    if params.writer == "import" and not params.questions.is_file():
        raise StageError(
            f"queries.questions: {params.questions} is no file; name one, a question a line (docs/queries.md)"
        )
    ocr, parsed = load_library(require(OCR, "ocr")), load_library(require(PARSED, "parse"))
    try:
        return write_queries(groups, ocr, parsed, params, stage.params.seed, cache_folder=stage.cache)
    except ValueError as error:
        raise StageError(f"no questions from {GROUPS}, {OCR} and {PARSED}: {error}") from error
    except ChatError as error:
        raise StageError(f"the question writer's endpoint failed: {error}") from error


def make_conversations(stage: Stage) -> tuple[QueryReport, dict[str, Paper]]:
    """Questions about conversations of `queries.mrcr`, and these as papers."""
    assert stage.params.queries.mrcr is not None  # checked by QueriesParams
    report = QueryReport(writer={"name": "mrcr", "version": mrcr_queries.VERSION})
    made: dict[str, Paper] = {}
    for split in SPLITS:
        queries, papers = mrcr_queries.make_split(stage.params.queries.mrcr, split, stage.params.seed)
        report.add(split, queries)
        made |= papers
    return report, made


def take_documents(stage: Stage) -> tuple[QueryReport, dict[str, Paper]]:
    """Questions and documents of the LongBench-Pro file that `queries.questions` names."""
    params = stage.params.queries
    report = QueryReport(writer={"name": "longbench-pro", "version": longbench_queries.VERSION})
    try:
        queries, made = longbench_queries.make_splits(
            params.questions, val_share=params.val_share, test_share=params.test_share, seed=stage.params.seed
        )
    except ValueError as error:
        raise StageError(f"queries.questions: {error}") from error
    for split, rows in queries.items():
        report.add(split, rows)
    return report, made


def _check(report: QueryReport) -> None:
    total = sum(len(rows) for rows in report.queries.values())
    if total == 0:
        reasons = ", ".join(f"{reason}: {n}" for reason, n in report.rejected.most_common()) or "no paragraph was fit"
        raise StageError(f"not one question could be written ({reasons}); look at the OCR text in {OCR}")
    if (tests := len(report.queries["test"])) < ADVISED_TEST:
        report.warn(
            f"{tests} test questions; at least {ADVISED_TEST} are advised before arms are compared "
            "(raise queries.single_per_paper or queries.test_share, or add papers)"
        )


def metrics_of(figures: Mapping[str, Any]) -> dict[str, float]:
    """The report's figures that MLflow keeps."""
    metrics: dict[str, float] = {"queries_total": figures["total"], "rejected": sum(figures["rejected"].values())}
    for split, row in figures["splits"].items():
        metrics[f"queries_{split}"] = row["queries"]
        metrics[f"queries_{split}_multi"] = row["kinds"].get("multi", 0)
    for key, value in figures["leakage"].items():
        metrics[f"leaked_{key}"] = value
    for key in ("score_mean", "share_in_pieces"):
        if figures["alignment"][key] is not None:
            metrics[f"alignment_{key}"] = figures["alignment"][key]
    for key, value in figures.get("usage", {}).items():
        metrics[f"writer_{key}"] = value
    return metrics


if __name__ == "__main__":
    stage_main("queries", run)
