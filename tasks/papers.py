"""Stage `papers`: PDFs from the sample library, a folder or a manifest of addresses, and a manifest of what there is."""

from __future__ import annotations

import logging
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

from rlm_core.files import sha256_file, write_json, write_jsonl
from rlm_core.papers import sources
from rlm_core.papers.folders import publishing
from rlm_core.papers.problems import PdfProblem
from rlm_core.papers.sources import Source, SourceError
from rlm_core.papers.texts import read_text_paper
from rlm_core.progress import Progress
from tasks.common import Stage, StageError, stage_main

log = logging.getLogger("rlm.stage")

OUT = Path("data/papers")


def run(stage: Stage) -> None:
    params = stage.params.papers
    with publishing(OUT) as folder:
        if params.source == "sample":
            rows = _sample(stage, folder)
        elif params.source == "texts":
            rows = _texts(stage, folder)
        else:
            rows = _collect(stage, folder)
        usable = [row for row in rows if "problem" not in row]
        for row in rows:
            if "problem" in row:
                log.warning("papers: %s left out: %s; %s", row["source"], row["problem"], row["remedy"])
        if not usable:
            kinds = ", ".join(f"{n} {kind}" for kind, n in Counter(row["problem"] for row in rows).items())
            what = "text" if params.source == "texts" else "PDF"
            raise StageError(f"no usable {what} in papers.source '{params.source}': {kinds or 'it is empty'}")
        write_jsonl(folder / "manifest.jsonl", rows)
    stage.log_metrics({"papers": len(usable), "papers_left_out": len(rows) - len(usable)})


def _sample(stage: Stage, folder: Path) -> list[dict[str, Any]]:
    from rlm_core.papers.sample import write_sample_library

    params = stage.params.papers
    # Not by `seed`: another training seed must not change the papers, and with them all OCR.
    rows = write_sample_library(folder, topics=params.sample_topics, papers_per_topic=params.sample_papers_per_topic)
    kept = sorted(rows, key=lambda row: row["id"])[: params.max_papers]
    names = {row["file"] for row in kept}
    for path in folder.glob("*.pdf"):
        if path.name not in names:
            path.unlink()
    return kept


def _texts(stage: Stage, folder: Path) -> list[dict[str, Any]]:
    """Copy papers that are text already; any other JSON file is listed with its problem and left out."""
    source = stage.params.papers.directory
    rows: list[dict[str, Any]] = []
    for path in sorted(source.glob("*.json"))[: stage.params.papers.max_papers]:
        row = {"id": path.stem, "file": path.name, "title": "", "licence": "", "source": path.as_posix()}
        try:
            paper = read_text_paper(path)
        except ValueError as error:
            rows.append(row | {"problem": "not-a-paper", "remedy": f"{error}: remove it"})
            continue
        write_json(folder / path.name, paper.to_dict() | {"id": path.stem})
        rows.append(row | {"title": paper.title, "sha256": paper.sha256})
    return rows


def _collect(stage: Stage, folder: Path) -> list[dict[str, Any]]:
    """Copy or download; a file that is no PDF, or the same file twice, is listed with its problem and left out."""
    params = stage.params.papers
    try:
        if params.source == "directory":
            assert params.directory is not None
            wanted = sources.from_directory(params.directory)
        else:
            assert params.manifest is not None
            wanted = sources.from_manifest(params.manifest)
    except SourceError as error:
        raise StageError(str(error)) from error
    wanted = sorted(wanted, key=lambda source: source.id)[: params.max_papers]
    rows: list[dict[str, Any]] = []
    seen: dict[str, str] = {}
    with Progress("papers", total=len(wanted), unit="papers") as progress:
        for source in wanted:
            row = _row(source, stage, folder)
            first = seen.setdefault(row["sha256"], source.id) if "sha256" in row else source.id
            if first != source.id and "problem" not in row:
                (folder / row["file"]).unlink()
                row |= {"problem": "duplicate", "remedy": f"the same file is there as {first}: remove one"}
            rows.append(row)
            progress.advance()
    return rows


def _row(source: Source, stage: Stage, folder: Path) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": source.id,
        "file": f"{source.id}.pdf",
        "title": source.title,
        "licence": source.licence,
        "source": sources.shown(source.location),
    }
    try:
        path = _local(source, stage)
    except SourceError as error:
        return row | {"problem": "download", "remedy": str(error)}
    try:
        problem: PdfProblem | None = sources.check(path)
        if problem is not None:
            return row | {"problem": problem.kind, "remedy": problem.remedy}
        shutil.copyfile(path, folder / row["file"])
        return row | {"sha256": source.sha256 or sha256_file(folder / row["file"])}
    except (PermissionError, FileNotFoundError) as error:  # a full disk is no fault of this file
        return row | {"problem": "unreadable", "remedy": f"make the file readable ({error.strerror})"}


def _local(source: Source, stage: Stage) -> Path:
    """The file on this machine; downloads stay in the stage's cache by their checksum, so a second run fetches nothing."""
    if not source.sha256:
        return Path(source.location)
    target = stage.cache / f"{source.sha256}.pdf"
    sources.download(source, target)
    return target


if __name__ == "__main__":
    stage_main("papers", run)
