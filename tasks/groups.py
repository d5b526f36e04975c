"""Stage `groups`: similar papers together, of those that were both parsed and read by OCR; splits are made by group later."""

from __future__ import annotations

import logging
from pathlib import Path

from rlm_core.files import write_jsonl
from rlm_core.papers.grouping import make_grouping
from rlm_core.papers.library import load_library
from tasks.common import Stage, StageError, require, stage_main

log = logging.getLogger("rlm.stage")

OUT = Path("data/groups.jsonl")


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
    for first, second, similarity in grouping.duplicates:
        log.warning("groups: %s and %s are nearly the same paper (similarity %.2f)", first, second, similarity)
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
    extra = {"silhouette": grouping.silhouette, "neighbour_agreement": grouping.neighbour_agreement}
    stage.log_metrics({**figures, **{key: value for key, value in extra.items() if value is not None}})


if __name__ == "__main__":
    stage_main("groups", run)
