"""A folder of papers as a library, and the context that a query's REPL gets from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from rlm_core.files import read_json
from rlm_core.papers.records import Paper
from rlm_core.records import Query


def load_library(folder: Path | str) -> dict[str, Paper]:
    """All papers of a folder of ID.json files as `parse` and `ocr` write them, by id, in the order of their ids."""
    folder = Path(folder)
    if not folder.is_dir():
        raise ValueError(f"{folder}: no such folder; the stages 'parse' and 'ocr' write data/parsed and data/ocr")
    papers = {}
    for path in sorted(folder.glob("*.json")):
        row = read_json(path)
        if not isinstance(row, dict) or "id" not in row or "pages" not in row:
            raise ValueError(f"{path}: not a paper as parse or ocr write it (no 'id' or 'pages'); remove the file")
        papers[row["id"]] = Paper.from_dict(row)
    return papers


def attach_context(query: Query, library: Mapping[str, Paper]) -> Query:
    """The query with the context its REPL holds: `{paper_id: {"title", "abstract", "text"}}` of its papers."""
    missing = [paper_id for paper_id in query.paper_ids if paper_id not in library]
    if missing:
        raise ValueError(
            f"query {query.id!r} needs the paper(s) {', '.join(missing)}, which are not in the library of "
            f"{len(library)}; run the stages 'parse' and 'queries' on the same papers"
        )
    context = {
        paper_id: {"title": paper.title, "abstract": paper.abstract, "text": paper.text}
        for paper_id in query.paper_ids
        for paper in (library[paper_id],)
    }
    return dataclasses.replace(query, context=context)
