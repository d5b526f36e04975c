"""Aspects: what papers speak of whatever their topic, and of which papers a question on one may be asked."""

from __future__ import annotations

import pytest

from rlm_core.synthesis.aspects import ASPECTS, MAX_PER_PAPER, spoken_of
from rlm_core.synthesis.checks import gives_away, near_duplicates
from rlm_core.synthesis.extractive import ExtractiveWriter
from rlm_core.synthesis.passages import Passage

PLAIN = "It is all that there was for us to do, and so on, until it was over for all of them. " * 2
ADVICE = "After that the makers recommend that it be rinsed, and we did as they say. " + PLAIN


def papers(*texts: list[str], kind: str = "body") -> dict[str, list[Passage]]:
    return {f"p{n}": [Passage(f"p{n}", i, t, kind) for i, t in enumerate(rows)] for n, rows in enumerate(texts)}


def advice(library: dict[str, list[Passage]]):
    return next(s for s in spoken_of(library) if s.aspect.name == "advice")


def test_every_passage_that_speaks_of_it_is_evidence():
    found = advice(papers([ADVICE, PLAIN], [PLAIN], [ADVICE]))
    assert [(p.paper_id, p.number) for p in found.evidence] == [("p0", 0), ("p2", 0)]
    assert found.readable == ("p0", "p1", "p2") and found.num_papers == 2


@pytest.mark.parametrize("kind", ["abstract", "caption", "table"])
def test_a_paper_that_also_speaks_of_it_where_nothing_can_be_evidence_is_left_out(kind):
    library = papers([ADVICE], [ADVICE], [PLAIN])
    library["p1"].append(Passage("p1", 1, "They recommend rye.", kind))
    found = advice(library)
    assert found.readable == ("p0", "p2") and {p.paper_id for p in found.evidence} == {"p0"}


def test_a_paper_that_speaks_of_it_all_the_time_is_left_out():
    assert advice(papers([ADVICE] * MAX_PER_PAPER)).readable == ("p0",)
    assert advice(papers([ADVICE] * (MAX_PER_PAPER + 1))).readable == ()


def test_a_section_on_it_speaks_of_it():
    titled = Passage("p0", 0, PLAIN.strip(), section="4.1 Recommendations")
    assert advice({"p0": [titled]}).evidence == (titled,)


def test_the_questions_of_an_aspect_ask_in_other_words():
    for aspect in ASPECTS:
        assert len(set(aspect.questions)) == len(aspect.questions) >= 2
        assert near_duplicates(aspect.questions) == [], aspect.name
    assert len({a.name for a in ASPECTS}) == len(ASPECTS)


@pytest.mark.parametrize(("num_papers", "tiers"), [(4, set()), (5, {"5+"}), (6, {"5+"})])
def test_only_large_groups_are_asked_for_aspects(num_papers, tiers):
    library = papers(*[[f"{ADVICE}{n}."] for n in range(num_papers)])
    writer = ExtractiveWriter(library, 42)
    drafts = [d for d in writer.multi(library, 3) if "aspect" in d.details]
    assert {"5+" for d in drafts if len({p.paper_id for p in d.evidence}) >= 5} == tiers
    for draft in drafts:
        assert draft.paper_ids == tuple(library) and not gives_away(draft.question, [p.text for p in draft.evidence])


def test_taking_advantage_is_no_advantage():
    words = next(a.words for a in ASPECTS if a.name == "advantages")
    assert words.search("It has the advantage of speed.") and not words.search("It takes advantage of both cores.")


def test_a_phrase_that_is_an_aspect_is_not_asked_for_again():
    text = "In short it was the clinical recommendation that it be rinsed, and we did so. " + PLAIN
    library = papers(*[[f"{text}{n}."] for n in range(5)])
    drafts = list(ExtractiveWriter(library, 42).multi(library, 9))
    assert [d.details.get("aspect") for d in drafts] == ["advice"]
    four = dict(list(library.items())[:4])
    assert {d.key_phrase for d in ExtractiveWriter(four, 42).multi(four, 9)} == {"clinical recommendation"}
