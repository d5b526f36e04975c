"""LongBench-Pro as questions to teach on: the source of the published SFT recipe (arXiv 2512.24601, appendix A).

A document stands where a paper does, and the answer's entries where evidence does; they are not located in the text, so such
questions teach (SFT) and are left out of RL. The judge compares the entries' letters: a rollout without any of them has the
lowest reward, which `distill.min_reward: 0.1` drops as the recipe drops a score of 0. What was trained on is no benchmark any
more.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from rlm_core.evaluation.benchmarks.longbench_pro import load
from rlm_core.papers.records import Paper
from rlm_core.records import Evidence, Query
from rlm_core.synthesis.splits import SPLITS, Split

VERSION = "1"
LONGEST = 262_144
"""Tokens: every document of the file."""


def make_splits(
    path: Path, *, val_share: float, test_share: float, seed: int
) -> tuple[dict[Split, list[Query]], dict[str, Paper]]:
    """English questions by split, and the documents by id. Questions about one document are in one split, by a hash of it.

    Raises `ValueError` for a file that cannot be used.
    """
    queries: dict[Split, list[Query]] = {split: [] for split in SPLITS}
    papers: dict[str, Paper] = {}
    for item in load(path, LONGEST, seed):
        text = str(item.context)
        digest = hashlib.sha256(f"{seed} {text}".encode()).hexdigest()
        paper_id = f"document-{digest[:12]}"
        papers[paper_id] = Paper(
            paper_id, title=str(item.metadata["primary_task"]), pages=(text,), engine="longbench-pro"
        )
        place = int(digest[:8], 16) / 16**8
        split: Split = "test" if place < test_share else "val" if place < test_share + val_share else "train"
        queries[split].append(
            Query(
                id=item.id,
                question=item.question,
                paper_ids=(paper_id,),
                evidence=tuple(Evidence(paper_id, str(entry)) for entry in item.gold),
                group_id=paper_id,
                provenance={"writer": "longbench-pro", "task": item.metadata["secondary_task"]},
            )
        )
    return queries, papers
