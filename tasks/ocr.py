"""Stage `ocr`: the clean text of every PDF, read from page images; each page is kept as it is finished."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlm_core.fanout import ClusterError, spread
from rlm_core.files import content_key, read_json, read_jsonl, read_kept, write_json
from rlm_core.papers.engines import EngineError, OcrEngine, make_engine, surya_address
from rlm_core.papers.folders import publishing
from rlm_core.papers.ocr import PageJob, page_from_row, paper_of, pdf_outline, read_job
from rlm_core.papers.problems import PdfProblem
from rlm_core.papers.texts import is_text
from rlm_core.progress import Progress
from tasks.common import Stage, StageError, require, stage_main, worker_count
from tasks.parse import explain, pace, publish_texts, report_row, summary

log = logging.getLogger("rlm.stage")

PAPERS = Path("data/papers")
OUT = Path("data/ocr")
REPORT = Path("reports/ocr.json")
CPU_SECONDS = 600
"""Processor time for one page, where 3 to 10 are usual."""


@dataclass(frozen=True, slots=True)
class Document:
    """One PDF that can be opened, and the file that keeps the boxes of each page, in order."""

    id: str
    pdf: Path
    title: str
    pages: tuple[tuple[PageJob, Path], ...]


def run(stage: Stage) -> None:
    params = stage.params.ocr
    manifest = list(read_jsonl(require(PAPERS / "manifest.jsonl", "papers")))
    try:
        engine = make_engine(params.engine, dpi=params.dpi, surya_url=params.surya_url)
    except EngineError as error:
        raise StageError(str(error)) from error
    problems: dict[str, tuple[str, str, str]] = {}
    documents = []
    for row in manifest:
        if "problem" not in row and not is_text(row):
            try:
                documents.append(_document(stage, row, engine))
            except PdfProblem as problem:
                problems[row["id"]] = explain(problem)
                log.warning("ocr: %s", problem)
    start = time.monotonic()
    results = {job: result for document in documents for job, result in document.pages}
    todo = [job for job, result in results.items() if read_kept(result, page_from_row) is None]
    with Progress("ocr", total=len(results), unit="pages", done=len(results) - len(todo)) as progress:
        for job, outcome in _outcomes(todo, stage):
            if isinstance(outcome, EngineError):
                raise StageError(str(outcome)) from outcome
            if isinstance(outcome, Exception):
                kind, detail, remedy = explain(outcome)
                problems[job.paper_id] = (kind, f"page {job.number}: {detail}", remedy)
                log.warning("ocr: %s page %d: %s", job.pdf, job.number, outcome)
            else:
                write_json(results[job], outcome)
            progress.advance(note=f"{job.paper_id} page {job.number}")
    seconds = time.monotonic() - start
    pages, texts = _publish(documents, engine, params.dpi, problems, manifest)
    rows = [report_row(row, problems) for row in manifest]
    counts = summary(rows, pages)
    write_json(
        REPORT, {"papers": rows, "counts": counts, "engine": f"{engine.name} {engine.version}", "dpi": params.dpi}
    )
    stage.log_metrics(counts | pace(pages, seconds, share_new=len(todo) / max(1, len(results))))
    stage.log_artifact(REPORT)
    if pages + texts == 0:
        raise StageError(f"none of {len(manifest)} PDFs could be read; {REPORT} says why for each")


def _outcomes(todo: list[PageJob], stage: Stage) -> Iterator[tuple[PageJob, Any]]:
    params = stage.params.ocr
    try:
        yield from spread(
            read_job,
            todo,
            file_of=lambda job: job.pdf,
            executor=params.executor,
            workers=worker_count(params.workers),
            cpu_seconds=CPU_SECONDS,
            address=params.ray_address,
        )
    except ClusterError as error:
        raise StageError(str(error)) from error


def _document(stage: Stage, row: dict[str, Any], engine: OcrEngine) -> Document:
    params = stage.params.ocr
    pdf = PAPERS / row["file"]
    num_pages, title = pdf_outline(pdf)
    # The address of a server does not shape what it reads; all else does.
    key = content_key(row["sha256"], engine.name, engine.version, engine.settings, params.dpi)
    folder = stage.cache / key
    jobs = [
        PageJob(row["id"], pdf, number, params.dpi, engine.name, engine.version, surya_address(params.surya_url))
        for number in range(1, num_pages + 1)
    ]
    pages = tuple((job, folder / f"{job.number:04d}.json") for job in jobs)
    return Document(row["id"], pdf, title, pages)


def _publish(
    documents: list[Document],
    engine: OcrEngine,
    dpi: int,
    problems: dict[str, tuple[str, str, str]],
    manifest: list[dict[str, Any]],
) -> tuple[int, int]:
    """Write all papers that were read whole, and those that are text already; returns pages read, and the texts' number."""
    count = 0
    with publishing(OUT) as folder:
        for document in documents:
            if document.id in problems:
                continue
            boxes = [page_from_row(read_json(result)) for _, result in document.pages]
            try:
                paper = paper_of(boxes, engine, dpi, path=document.pdf, title_hint=document.title, id=document.id)
            except PdfProblem as problem:
                problems[document.id] = explain(problem)
                log.warning("ocr: %s", problem)
                continue
            write_json(folder / f"{document.id}.json", paper.to_dict())
            count += len(boxes)
        texts = publish_texts(manifest, folder, "ocr")
    return count, texts


if __name__ == "__main__":
    stage_main("ocr", run)
