"""Stage `groups`: similar papers together, of those that were both parsed and read by OCR; splits are made by group later."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlm_core.files import write_json, write_jsonl
from rlm_core.papers.grouping import Grouping, make_grouping
from rlm_core.papers.library import load_library
from tasks.common import Stage, StageError, require, stage_main

log = logging.getLogger("rlm.stage")

OUT = Path("data/groups.jsonl")
REPORT = Path("reports/groups.json")


def run(stage: Stage) -> None:
    params = stage.params.groups
    parsed = load_library(require(Path("data/parsed"), "parse"))
    clean = load_library(require(Path("data/ocr"), "ocr"))
    both = sorted(parsed.keys() & clean.keys())
    for paper_id in sorted(parsed.keys() ^ clean.keys()):
        missing = "ocr" if paper_id in parsed else "parse"
        log.warning("groups: %s left out: stage '%s' could not read it", paper_id, missing)
    if not both:
        counts = f"parse ({len(parsed)} papers) and ocr ({len(clean)})"
        raise StageError(f"no paper was read by both {counts}; reports/papers.json and reports/ocr.json say why")
    grouping = make_grouping([clean[i] for i in both], params.max_papers, params.min_similarity, stage.params.seed)
    for first, second, share in grouping.duplicates:
        log.warning("groups: %s and %s are nearly the same text (%.0f %% of it)", first, second, 100 * share)
    near = {paper_id for pair in grouping.duplicates for paper_id in pair[:2]}
    write_jsonl(
        OUT,
        (group.to_dict() | {"duplicates": sorted(near.intersection(group.paper_ids))} for group in grouping.groups),
    )
    figures = {
        "groups": len(grouping.groups),
        "papers": len(both),
        "largest_group": max(len(group.paper_ids) for group in grouping.groups),
        "single_paper_groups": sum(len(group.paper_ids) == 1 for group in grouping.groups),
        "near_duplicates": len(grouping.duplicates),
        "left_out": len(parsed.keys() ^ clean.keys()),
    }
    quality = {"silhouette": grouping.silhouette, "neighbour_agreement": grouping.neighbour_agreement}
    write_json(REPORT, report_of(grouping, {i: clean[i].title for i in both}, figures | quality))
    stage.log_metrics({**figures, **{key: value for key, value in quality.items() if value is not None}})
    stage.log_artifact(REPORT)


def report_of(grouping: Grouping, titles: Mapping[str, str], figures: Mapping[str, float | None]) -> dict[str, Any]:
    """What a person needs to judge the groups: figures, who is in each with whom nearest, and near-duplicates."""
    groups = [
        {
            **group.to_dict(),
            "papers": [
                {
                    "id": i,
                    "title": titles[i],
                    "nearest": grouping.neighbours.get(i, (None, 0.0))[0],
                    "similarity": round(grouping.neighbours.get(i, (None, 0.0))[1], 4),
                }
                for i in group.paper_ids
            ],
        }
        for group in grouping.groups
    ]
    pairs = [{"papers": [a, b], "shared": share} for a, b, share in grouping.duplicates]
    return {"figures": dict(figures), "groups": groups, "near_duplicates": pairs}


if __name__ == "__main__":
    stage_main("groups", run)
