"""Pages a second of parsing and OCR on the sample papers, one process each: `python -m benchmarks.ingest [--papers 2]`."""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from rapidfuzz.distance import Levenshtein

from rlm_core.papers import ocr_pdf, parse_pdf
from rlm_core.papers.sample import SamplePaper, library_content, write_sample_library


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--papers", type=int, default=2, help="sample papers read by each way")
    arguments.add_argument("--dpi", type=int, nargs="+", default=[110, 150], help="of the page images for OCR")
    arguments.add_argument("--out", type=Path, default=Path("reports/benchmarks/ingest.json"))
    options = arguments.parse_args()

    truth = {paper.id: paper for paper in library_content(topics=1, papers_per_topic=options.papers)}
    with tempfile.TemporaryDirectory() as folder:
        write_sample_library(Path(folder), topics=1, papers_per_topic=options.papers)
        files = sorted(Path(folder).glob("*.pdf"))
        ways: dict[str, Any] = {
            "parse, noisy": lambda file: parse_pdf(file, mode="noisy"),
            "parse, columns": lambda file: parse_pdf(file, mode="columns"),
        }
        for dpi in options.dpi:
            ways[f"RapidOCR, {dpi} dpi"] = lambda file, dpi=dpi: ocr_pdf(file, dpi=dpi)
        rows = [{"way": name, **measure(way, files, truth)} for name, way in ways.items()]

    base = rows[0]["seconds_per_page"]
    print(f"{'way':20} {'pages/s':>8} {'times noisy':>12} {'letters wrong in paragraphs':>28}")
    for row in rows:
        row["ratio"] = row["seconds_per_page"] / base
        print(f"{row['way']:20} {1 / row['seconds_per_page']:8.2f} {row['ratio']:12.1f} {row['letter_error']:28.3%}")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(rows, indent=1) + "\n")


def measure(way: Any, files: list[Path], truth: dict[str, SamplePaper]) -> dict[str, float]:
    """Seconds a page, and the share of wrong letters over the true paragraphs (edit distance to the closest read one)."""
    way(files[0])  # models are loaded and caches are warm
    start = time.perf_counter()
    papers = [way(file) for file in files]
    seconds = time.perf_counter() - start
    wrong = letters = 0
    for paper in papers:
        read = [_letters(p.text) for p in paper.paragraphs] or [_letters(paper.text)]
        for paragraph in truth[paper.id].paragraphs:
            gold = _letters(paragraph.text)
            wrong += min(min(Levenshtein.distance(gold, text), len(gold)) for text in read)
            letters += len(gold)
    pages = sum(len(paper.pages) for paper in papers)
    return {"seconds_per_page": seconds / pages, "pages": pages, "letter_error": wrong / letters}


def _letters(text: str) -> str:
    return "".join(c for c in text.casefold() if c.isalnum())


if __name__ == "__main__":
    main()
