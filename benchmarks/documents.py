"""Readings of real papers against their publishers' text: parse (noisy, columns) and OCR; and what grouping makes of them.

A corpus is a folder with MANIFEST.tsv, whose rows name a PDF (`file`), its source in JATS, MyST or LaTeX
(`has_ground_truth_path`, may be empty) and a topic (`suggested_group`). OCR takes seconds a page: `--ocr` takes finished
readings as stage `ocr` writes them instead.

    python -m benchmarks.documents ../shared/corpus --ways noisy columns --only PMC13 jose
    python -m benchmarks.documents ../shared/corpus --ocr "OCR, 150 dpi=data/ocr"
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.fidelity import Fidelity, compare
from benchmarks.publishers import read_truth
from benchmarks.topics import TopicFigures, topics_table
from rlm_core.fanout import map_processes
from rlm_core.papers import Paper, load_library, ocr_pdf, parse_pdf
from rlm_core.progress import Progress


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the manifest."""

    id: str
    pdf: Path
    source: Path | None
    topic: str


@dataclass(frozen=True, slots=True)
class Job:
    way: str
    pdf: Path
    dpi: int


@dataclass(frozen=True, slots=True)
class Reading:
    paper: Paper
    seconds: float | None = None
    """Of processor time, which other work on the machine does not change."""
    peak_mib: float | None = None
    """Of the process that reads all papers of one way, so far."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.documents", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus", type=Path, help="folder with MANIFEST.tsv")
    parser.add_argument("--ways", nargs="*", choices=["noisy", "columns", "ocr"], default=["noisy", "columns"])
    parser.add_argument("--dpi", type=int, default=150, help="for the way `ocr`")
    parser.add_argument("--ocr", nargs="*", default=[], metavar="NAME=DIR", help="finished readings, with their name")
    parser.add_argument("--only", nargs="*", default=[], metavar="PART", help="papers whose file holds one of these")
    parser.add_argument("--papers", action="store_true", help="a row for every paper too")
    parser.add_argument("--out", type=Path, default=Path("reports/benchmarks/documents.json"))
    options = parser.parse_args(argv)
    try:
        entries = read_manifest(options.corpus, options.only)
        finished = {name: load_library(folder) for name, folder in (split_name(text) for text in options.ocr)}
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    readings = {way: read_all(way, entries, options.dpi) for way in options.ways}
    for name, library in finished.items():
        readings[name] = {e.id: Reading(library[e.id]) for e in entries if e.id in library}
    rows = [row for way, read in readings.items() for row in rows_of(way, entries, read)]
    print_table(rows, every=options.papers)
    topics = {e.id: e.topic for e in entries if e.topic}
    groupings = [
        TopicFigures.of(way, [read[i].paper for i in topics if i in read], topics) for way, read in readings.items()
    ]
    print(topics_table(groupings))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({"papers": rows, "grouping": [asdict(g) for g in groupings]}, indent=1) + "\n")
    return 0


def read_manifest(corpus: Path, only: Sequence[str] = ()) -> list[Entry]:
    manifest = corpus / "MANIFEST.tsv"
    if not manifest.is_file():
        raise ValueError(f"{manifest}: no such file; name a folder that holds MANIFEST.tsv beside its papers")
    entries = []
    with open(manifest, encoding="utf-8", newline="") as handle:
        for row in csv.DictReader(handle, delimiter="\t"):
            if not only or any(part in row["file"] for part in only):
                source = row.get("has_ground_truth_path") or ""
                entries.append(
                    Entry(
                        Path(row["file"]).stem,
                        corpus / row["file"],
                        corpus / source if source else None,
                        row.get("suggested_group") or "",
                    )
                )
    if not entries:
        raise ValueError(f"{manifest}: no paper whose file holds {' or '.join(only)}")
    return entries


def split_name(text: str) -> tuple[str, Path]:
    """`NAME=DIR`, or a folder alone, which is its own name."""
    name, _, folder = text.rpartition("=")
    return name or folder, Path(folder)


def read_all(way: str, entries: Sequence[Entry], dpi: int) -> dict[str, Reading]:
    """Read every paper in one process of its own, so that its peak memory is this way's."""
    jobs = {Job(way, entry.pdf, dpi): entry.id for entry in entries}
    readings = {}
    with Progress(way, total=len(jobs), unit="papers") as progress:
        for job, outcome in map_processes(read_one, jobs, workers=1):
            progress.advance(note=job.pdf.name)
            if isinstance(outcome, Exception):
                raise outcome
            readings[jobs[job]] = outcome
    return readings


def read_one(job: Job) -> Reading:
    """Runs in the process that reads."""
    start = time.process_time()
    paper = ocr_pdf(job.pdf, dpi=job.dpi) if job.way == "ocr" else parse_pdf(job.pdf, job.way)  # type: ignore[arg-type]
    return Reading(paper, time.process_time() - start, peak_mib())


def peak_mib() -> float:
    """Peak resident memory of this process; getrusage would also count what it was forked from."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024


def rows_of(way: str, entries: Sequence[Entry], readings: dict[str, Reading]) -> list[dict[str, Any]]:
    rows = []
    for entry in entries:
        if entry.source is not None and entry.id in readings:
            read = readings[entry.id]
            figures = asdict(compare(read.paper, read_truth(entry.source)))
            rows.append(
                {
                    "way": way,
                    "paper": entry.id,
                    "pages": len(read.paper.pages),
                    "seconds": read.seconds,
                    "peak_mib": read.peak_mib,
                    **figures,
                }
            )
    return rows


HEADS = {
    "word_recall": "words found",
    "word_precision": "words true",
    "body_precision": "body words true",
    "paragraphs_found": "paragraphs found",
    "char_error": "character error",
    "paragraphs_whole": "paragraphs whole",
    "order_tau": "order (tau)",
    "section_recall": "sections found",
    "section_precision": "headings true",
    "abstract_recall": "abstract found",
    "abstract_precision": "abstract true",
    "title": "title",
}


def print_table(rows: Sequence[dict[str, Any]], *, every: bool) -> None:
    """Means over the papers of each way, as a Markdown table; pages a second of one processor over all, the peak over all."""
    print("| read by | papers | " + " | ".join(HEADS.values()) + " | pages / CPU s | peak MiB |")
    print("|---|" + "---|" * (len(HEADS) + 3))
    for way in dict.fromkeys(row["way"] for row in rows):
        own = [row for row in rows if row["way"] == way]
        for name, part in ([(f"{way}: {r['paper']}", [r]) for r in own] if every else []) + [(way, own)]:
            print(f"| {name} | {len(part)} | " + " | ".join(_cells(part)) + " |")


def _cells(rows: Sequence[dict[str, Any]]) -> list[str]:
    cells = []
    for key in HEADS:
        values = [row[key] for row in rows if row[key] is not None]
        cells.append(f"{fmean(values):.{4 if key == 'char_error' else 3}f}" if values else "-")
    seconds = [row["seconds"] for row in rows if row["seconds"] is not None]
    peaks = [row["peak_mib"] for row in rows if row["peak_mib"] is not None]
    cells.append(f"{sum(row['pages'] for row in rows) / sum(seconds):.2f}" if seconds else "-")
    cells.append(f"{max(peaks):.0f}" if peaks else "-")
    return cells


assert set(HEADS) == {field.name for field in dataclasses.fields(Fidelity)}

if __name__ == "__main__":
    raise SystemExit(main())
