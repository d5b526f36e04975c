"""Topics of several papers: which phrases, which passages, and when it is unclear."""

from __future__ import annotations

from collections import Counter

from rlm_core.synthesis.passages import Passage
from rlm_core.synthesis.phrases import Weights
from rlm_core.synthesis.shared_topics import Topic, shared_topics


def topics(*papers: list[str]) -> list[Topic]:
    made = {f"p{n}": [Passage(f"p{n}", i, text) for i, text in enumerate(texts)] for n, texts in enumerate(papers)}
    weights = Weights([p.text for p in passages] for passages in made.values())
    return shared_topics(made, weights, Counter())


def about(*phrases: str) -> str:
    """A paragraph that names the phrases and nothing else that could be asked for."""
    named = ", and on another of the days it was ".join(f"the {phrase} that was here" for phrase in phrases)
    return (
        f"It was {named}. "
        + "It is all that there was for us to do, and so on, until it was over for all of them. " * 2
    )


def test_two_phrases_single_out_passages_where_one_does_not():
    lysimeter, terrace = "drainage lysimeter", "loess terrace"
    # The lysimeter stands in four passages of each paper, too many to ask for; with the terrace, in one of each.
    papers = [[about(lysimeter, terrace)] + [about(lysimeter)] * 3 for _ in range(3)]
    found = topics(*papers, [about("nitrate leaching")])
    (pair,) = [t for t in found if t.cue]
    assert {pair.phrase.text, pair.cue.text} == {lysimeter, terrace}
    assert [(p.paper_id, p.number) for p in pair.evidence] == [("p0", 0), ("p1", 0), ("p2", 0)]
    assert lysimeter not in {t.phrase.text for t in found if not t.cue}


def test_the_commonest_spelling_stands_for_a_phrase():
    broken, whole = about("drai nage lysimeter"), about("drainage lysimeter")
    (topic,) = topics([broken], [whole], [whole])
    assert topic.phrase.text == "drainage lysimeter" and topic.num_papers == 3


def test_a_large_group_is_asked_without_the_papers_where_it_is_unclear():
    lysimeter = "drainage lysimeter"
    clear, unclear, silent = [about(lysimeter)], [about(lysimeter)] * 3, [about("nitrate leaching")]
    (topic,) = [t for t in topics(clear, clear, clear, unclear, silent, silent) if t.phrase.text == lysimeter]
    assert topic.left_out == {"p3"} and topic.num_papers == 3
    # With four papers left to read there is no question: p3 must be left out, and one of the silent ones is gone.
    assert not [t for t in topics(clear, clear, clear, unclear, silent) if t.phrase.text == lysimeter]
    # Two papers are no reason to leave out a third.
    assert not [t for t in topics(clear, clear, unclear, silent, silent, silent) if t.phrase.text == lysimeter]
