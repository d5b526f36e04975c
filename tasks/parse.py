"""Stage `parse`: the noisy text of every PDF, as the policy will see it; a PDF that cannot be read is listed and skipped."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlm_core.fanout import WorkerDied, map_processes
from rlm_core.files import content_key, read_json, read_jsonl, read_kept, write_json
from rlm_core.papers.engines import UnreadablePage
from rlm_core.papers.folders import publishing
from rlm_core.papers.parsing import LAYOUT_VERSION, parse_pdf
from rlm_core.papers.problems import REMEDIES, PdfProblem
from rlm_core.papers.records import Mode, Paper
from rlm_core.papers.textlayer import pdfplumber_version
from rlm_core.papers.texts import as_view, is_text, read_text_paper
from rlm_core.progress import Progress
from tasks.common import Stage, StageError, require, stage_main, worker_count

log = logging.getLogger("rlm.stage")

PAPERS = Path("data/papers")
OUT = Path("data/parsed")
REPORT = Path("reports/papers.json")
CPU_SECONDS = 900
"""Processor time for one PDF; at 0.1 s a page some 9,000 pages. What takes longer was made to."""


@dataclass(frozen=True, slots=True)
class Job:
    """One PDF to read; `result` is where its worker writes the paper."""

    id: str
    pdf: Path
    result: Path


def run(stage: Stage) -> None:
    manifest = list(read_jsonl(require(PAPERS / "manifest.jsonl", "papers")))
    start = time.monotonic()
    usable = [row for row in manifest if "problem" not in row]
    jobs = [Job(row["id"], PAPERS / row["file"], _cached(stage, row)) for row in usable if not is_text(row)]
    todo = [job for job in jobs if read_kept(job.result, Paper.from_dict) is None]
    problems: dict[str, tuple[str, str, str]] = {}  # id -> kind, detail, remedy
    with Progress("parse", total=len(jobs), unit="papers", done=len(jobs) - len(todo)) as progress:
        workers = worker_count(stage.params.parse.workers)
        for job, outcome in map_processes(parse_job, todo, workers=workers, cpu_seconds=CPU_SECONDS):
            if isinstance(outcome, Exception):
                problems[job.id] = explain(outcome)
                log.warning("parse: %s skipped: %s", job.pdf, outcome)
            progress.advance(note=job.id)
    seconds = time.monotonic() - start
    rows = [report_row(row, problems) for row in manifest]
    done = [job for job in jobs if job.id not in problems]
    with publishing(OUT) as folder:
        pages = 0
        for job in done:
            paper = read_json(job.result)
            # The cache knows the content; the id is this run's.
            write_json(folder / f"{job.id}.json", paper | {"id": job.id})
            pages += len(paper["pages"])
        texts = publish_texts(manifest, folder, "noisy")
    fresh = len(todo) - len(problems)
    counts = summary(rows, pages)
    write_json(REPORT, {"papers": rows, "counts": counts})
    stage.log_metrics(counts | pace(pages, seconds, share_new=fresh / max(1, len(done))))
    stage.log_artifact(REPORT)
    if not done and not texts:
        raise StageError(f"none of {len(manifest)} PDFs has a text layer that can be read; {REPORT} says why for each")


def publish_texts(manifest: list[dict[str, Any]], folder: Path, mode: Mode) -> int:
    """Hand on the papers that are text already; returns their number."""
    rows = [row for row in manifest if "problem" not in row and is_text(row)]
    for row in rows:
        write_json(folder / row["file"], as_view(read_text_paper(PAPERS / row["file"]), mode))
    return len(rows)


def _cached(stage: Stage, row: dict[str, Any]) -> Path:
    key = content_key(row["sha256"], pdfplumber_version(), LAYOUT_VERSION, "noisy")
    return stage.cache / f"{key}.json"


def parse_job(job: Job) -> None:
    """Runs in a worker process."""
    logging.getLogger("pdfminer").setLevel(logging.ERROR)
    write_json(job.result, parse_pdf(job.pdf, "noisy", id=job.id).to_dict())


def explain(error: Exception) -> tuple[str, str, str]:
    """Kind, detail and remedy of what went wrong with one PDF."""
    if isinstance(error, PdfProblem):
        return error.kind, error.detail, error.remedy
    if isinstance(error, UnreadablePage):
        return "unreadable-page", str(error), "read it with another engine or dpi, or leave the file out"
    if isinstance(error, (WorkerDied, MemoryError)):
        return "crash", str(error) or "out of memory", "its reader crashed: " + REMEDIES["broken"]
    return (
        "error",
        f"{type(error).__name__}: {error}"[:300],
        "an error of this program: leave the file out and report it",
    )


def report_row(row: dict[str, Any], problems: dict[str, tuple[str, str, str]]) -> dict[str, Any]:
    """One paper's line in the report; every row of the manifest gets one."""
    entry: dict[str, Any] = {"id": row["id"], "file": row["file"], "source": row.get("source", "")}
    if "problem" in row:
        return entry | {"status": "skipped", "kind": row["problem"], "detail": "", "remedy": row.get("remedy", "")}
    if row["id"] in problems:
        kind, detail, remedy = problems[row["id"]]
        return entry | {"status": "skipped", "kind": kind, "detail": detail, "remedy": remedy}
    return entry | {"status": "read"}


def summary(rows: list[dict[str, Any]], pages: int) -> dict[str, float]:
    """Figures of a stage that reads PDFs. No time is among them: the same PDFs give the same report."""
    figures: dict[str, float] = {
        "papers": sum(row["status"] == "read" for row in rows),
        "pages": pages,
        "skipped": sum(row["status"] == "skipped" for row in rows),
    }
    for row in rows:
        if row["status"] == "skipped":
            key = f"skipped_{row['kind']}".replace("-", "_")
            figures[key] = figures.get(key, 0) + 1
    return figures


def pace(pages: int, seconds: float, *, share_new: float) -> dict[str, float]:
    """How long reading took; the rate counts only pages read in this run."""
    rate = share_new * pages / seconds if seconds > 0 else 0.0
    return {"seconds": round(seconds, 3), "pages_per_second": round(rate, 3)}


if __name__ == "__main__":
    stage_main("parse", run)
