"""Train, validation and test: by group, so that no paper is in two of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rlm_core.files import content_key

Split = Literal["train", "val", "test"]
SPLITS: tuple[Split, ...] = ("train", "val", "test")
ROOM = 1.2
"""Held-out splits may exceed their share of the papers by a fifth, since groups are not cut."""


@dataclass(frozen=True, slots=True)
class PaperGroup:
    id: str
    paper_ids: tuple[str, ...]


def split_groups(
    groups: Sequence[PaperGroup], *, val_share: float, test_share: float, seed: int
) -> tuple[dict[Split, list[PaperGroup]], bool]:
    """Groups by split, and whether groups had to be cut.

    Groups are dealt in the order of a hash of seed and group id: adding a group moves few others. Test and validation take
    groups while these fit their share of the papers, so that one large group does not leave little to train on; each split
    gets at least one group.
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
        test = _take(ordered, test_share * len(papers), leave=2)
        val = _take(ordered, val_share * len(papers), leave=1)
        return {"train": ordered, "val": val, "test": test}, False
    sizes = _sizes(len(papers), val_share, test_share)
    ordered_papers = sorted(papers, key=lambda p: content_key(seed, p))
    home = {p: split for split, (low, high) in sizes.items() for p in ordered_papers[low:high]}
    parts: dict[Split, list[PaperGroup]] = {split: [] for split in SPLITS}
    for group in groups:
        for split in SPLITS:
            if mine := tuple(p for p in group.paper_ids if home[p] == split):
                parts[split].append(PaperGroup(f"{group.id}.{split}", mine))
    return parts, True


def _take(groups: list[PaperGroup], num_papers: float, *, leave: int) -> list[PaperGroup]:
    """Move groups out of the list while their papers stay within `num_papers`, give or take a fifth; at least the smallest."""
    taken: list[PaperGroup] = []
    room = ROOM * num_papers
    for group in list(groups):
        if len(groups) > leave and len(group.paper_ids) <= room:
            room -= len(group.paper_ids)
            groups.remove(group)
            taken.append(group)
    if not taken:
        taken.append(min(groups, key=lambda g: len(g.paper_ids)))
        groups.remove(taken[0])
    return taken


def _sizes(count: int, val_share: float, test_share: float) -> dict[Split, tuple[int, int]]:
    """Half-open ranges: test first, then validation, the rest trains; at least one each."""
    test = max(1, min(round(test_share * count), count - 2))
    val = max(1, min(round(val_share * count), count - test - 1))
    return {"train": (test + val, count), "val": (test, test + val), "test": (0, test)}
