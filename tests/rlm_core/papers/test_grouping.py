"""Groups of similar papers."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlm_core.papers import Paper, group_papers
from rlm_core.papers.grouping import Group, make_grouping

TOPICS = {
    "soil": "soil carbon nitrogen roots tillage rye compost plough humus clay",
    "star": "star galaxy telescope redshift spectrum photon orbit nebula quasar dust",
    "bread": "bread dough yeast flour oven crust gluten sourdough baker crumb",
}


def make_paper(topic: str, number: int) -> Paper:
    words = TOPICS[topic].split()
    text = " ".join(Random(number).choices(words, k=60))
    return Paper(f"{topic}{number}", f"On {words[number % 10]} and {words[(number + 1) % 10]}", pages=(text,))


PAPERS = [make_paper(topic, n) for topic in TOPICS for n in range(5)]


def test_papers_of_one_topic_meet():
    groups = group_papers(PAPERS, max_papers=5)
    assert sorted(g.paper_ids for g in groups) == sorted(tuple(f"{t}{n}" for n in range(5)) for t in TOPICS)
    assert all(set(g.key_words) <= set(TOPICS[g.paper_ids[0][:-1]].split()) for g in groups)


def test_quality_is_reported():
    grouping = make_grouping(PAPERS, max_papers=5)
    assert grouping.neighbour_agreement == 1.0
    assert grouping.silhouette > 0.3


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 7), st.floats(0, 1), st.permutations(range(15)))
def test_every_paper_is_in_one_group_whatever_the_order(max_papers, min_similarity, order):
    groups = group_papers([PAPERS[n] for n in order], max_papers, min_similarity)
    assert sorted(i for g in groups for i in g.paper_ids) == sorted(p.id for p in PAPERS)
    assert max(len(g.paper_ids) for g in groups) <= max_papers
    assert groups == group_papers(PAPERS, max_papers, min_similarity)


def test_a_paper_like_no_other_stays_alone():
    odd = Paper("odd", "Zebra crossings", pages=("zebra crossing pedestrian asphalt " * 20,))
    groups = {g.paper_ids: g for g in group_papers([*PAPERS, odd], 5)}
    assert groups[("odd",)].similarity == 1.0


@pytest.mark.parametrize("max_papers", [1, 2, 6])
def test_near_duplicates_stay_together_whatever_the_limit(max_papers):
    twin = Paper("twin", PAPERS[0].title, pages=PAPERS[0].pages)
    grouping = make_grouping([*PAPERS, twin], max_papers)
    assert grouping.duplicates == (("soil0", "twin", 1.0),)
    assert any({"soil0", "twin"} <= set(g.paper_ids) for g in grouping.groups)
    assert sum(len(g.paper_ids) > max_papers for g in grouping.groups) == (max_papers == 1)
    assert grouping.neighbours["twin"] == ("soil0", pytest.approx(1.0))


def test_corner_cases():
    assert group_papers([]) == []
    assert group_papers([PAPERS[0]]) == [Group("g000", ("soil0",), 1.0, group_papers([PAPERS[0]])[0].key_words)]
    assert len(group_papers([Paper("a"), Paper("b")])) == 2  # no text at all
    with pytest.raises(ValueError, match="same id"):
        group_papers([PAPERS[0], PAPERS[0]])


def test_a_group_survives_json():
    group = group_papers(PAPERS, 5)[0]
    assert Group.from_dict(group.to_dict()).paper_ids == group.paper_ids
