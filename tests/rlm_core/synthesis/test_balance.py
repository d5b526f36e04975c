"""One large group does not leave little to train on: held-out splits take what fits their share of the papers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rlm_core.synthesis.splits import ROOM, PaperGroup, split_groups


def make_groups(sizes: list[int]) -> list[PaperGroup]:
    return [PaperGroup(f"g{n:03d}", tuple(f"{n}.{k}" for k in range(size))) for n, size in enumerate(sizes)]


def test_equal_groups_are_dealt_by_share() -> None:
    splits, cut = split_groups(make_groups([4] * 6), val_share=0.15, test_share=0.3, seed=42)
    # 24 papers: 7.2 and a fifth more hold two groups of 4, 3.6 and a fifth more one
    assert ({name: len(groups) for name, groups in splits.items()}, cut) == ({"train": 3, "val": 1, "test": 2}, False)


def test_a_large_group_trains() -> None:
    splits, _ = split_groups(make_groups([10, 9, 2, 2, 2]), val_share=0.15, test_share=0.3, seed=42)
    # of 25 papers the test may hold 9: the three small groups; nothing fits into validation's 4.5, so the smaller one goes
    assert {name: sorted(len(g.paper_ids) for g in groups) for name, groups in splits.items()} == {
        "train": [10],
        "val": [9],
        "test": [2, 2, 2],
    }


@given(sizes=st.lists(st.integers(1, 10), min_size=3, max_size=12), seed=st.integers(0, 99))
def test_every_group_is_in_one_split_and_each_split_has_one(sizes: list[int], seed: int) -> None:
    groups = make_groups(sizes)
    splits, cut = split_groups(groups, val_share=0.2, test_share=0.3, seed=seed)
    assert not cut
    assert sorted(g.id for part in splits.values() for g in part) == [g.id for g in groups]
    assert all(splits.values())
    for name, share in (("test", 0.3), ("val", 0.2)):
        held = sum(len(g.paper_ids) for g in splits[name])
        assert held <= ROOM * share * sum(sizes) + 1e-9 or len(splits[name]) == 1
