"""Train, validation and test: by group, so that no paper is in two of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rlm_core.files import content_key

Split = Literal["train", "val", "test"]
SPLITS: tuple[Split, ...] = ("train", "val", "test")


@dataclass(frozen=True, slots=True)
class PaperGroup:
    id: str
    paper_ids: tuple[str, ...]


def split_groups(
    groups: Sequence[PaperGroup], *, val_share: float, test_share: float, seed: int
) -> tuple[dict[Split, list[PaperGroup]], bool]:
    """Groups by split, and whether groups had to be cut.

    The order is that of a hash of seed and group id: adding a group moves few others. Each split gets at least one group.
    With fewer than three groups the papers of each are dealt out instead, and a group becomes up to three, named
    `ID.train` and so on. Raises `ValueError` for fewer than three papers.
    """
    papers = [p for g in groups for p in g.paper_ids]
    if len(set(papers)) != len(papers):
        raise ValueError("a paper is in two groups; groups must not share papers, or splits would leak")
    if len(papers) < 3:
        raise ValueError(
            f"{len(papers)} paper(s) cannot be split into train, validation and test: add papers, at least 3"
        )
    if len(groups) >= 3:
        ordered = sorted(groups, key=lambda g: content_key(seed, g.id))
        sizes = _sizes(len(ordered), val_share, test_share)
        return {split: ordered[low:high] for split, (low, high) in sizes.items()}, False
    sizes = _sizes(len(papers), val_share, test_share)
    ordered_papers = sorted(papers, key=lambda p: content_key(seed, p))
    home = {p: split for split, (low, high) in sizes.items() for p in ordered_papers[low:high]}
    parts: dict[Split, list[PaperGroup]] = {split: [] for split in SPLITS}
    for group in groups:
        for split in SPLITS:
            if mine := tuple(p for p in group.paper_ids if home[p] == split):
                parts[split].append(PaperGroup(f"{group.id}.{split}", mine))
    return parts, True


def _sizes(count: int, val_share: float, test_share: float) -> dict[Split, tuple[int, int]]:
    """Half-open ranges: test first, then validation, the rest trains; at least one each."""
    test = max(1, min(round(test_share * count), count - 2))
    val = max(1, min(round(val_share * count), count - test - 1))
    return {"train": (test + val, count), "val": (test, test + val), "test": (0, test)}
