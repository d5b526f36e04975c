"""Near-duplicates: two versions of one text, told from two papers on one topic."""

from __future__ import annotations

from random import Random

import pytest

from rlm_core.papers import Paper
from rlm_core.papers.duplicates import near_duplicates, runs_of

WORDS = [
    "soil",
    "carbon",
    "nitrogen",
    "roots",
    "tillage",
    "rye",
    "compost",
    "plough",
    "humus",
    "clay",
    "drain",
    "yield",
    "plot",
]


def prose(seed: int, count: int) -> list[str]:
    return Random(seed).choices(WORDS, k=count)


def test_runs_are_of_five_words_whatever_case_and_stops():
    assert len(runs_of("one two three four five six")) == 2
    assert runs_of("Une ÉTUDE, de l'orge: et du blé") == runs_of("une étude de l orge et du blé")
    assert runs_of("one two three four") == frozenset()


def test_the_share_is_of_the_shorter_paper():
    # 100 words have 96 runs; of the 60 that the second version keeps, 56, all of them in the first
    first = prose(1, 100)
    pairs = near_duplicates([Paper("a", pages=(" ".join(first),)), Paper("b", pages=(" ".join(first[:60]),))])
    assert pairs == (("a", "b", 1.0),)
    # every 10th word misread: 5 of 10 runs hold it
    read = ["x" if n % 10 == 9 else word for n, word in enumerate(first)]
    ((_, _, share),) = near_duplicates([Paper("a", pages=(" ".join(first),)), Paper("b", pages=(" ".join(read),))])
    assert share == pytest.approx(0.5, abs=0.05)


def test_papers_on_one_topic_with_one_licence_are_not():
    licence = " ".join(f"permission{n} is granted to copy" for n in range(2))
    papers = [Paper(f"p{n}", pages=(" ".join(prose(n, 200)) + licence,)) for n in range(30)]
    assert near_duplicates(papers) == ()
    assert near_duplicates([Paper("a"), Paper("b")]) == ()


@pytest.mark.slow
def test_readings_of_one_real_paper_are_and_different_real_papers_are_not(shared_corpus):
    """Interleaved columns and columns apart: the hardest pair of readings; two papers of one group of authors."""
    from rlm_core.papers import parse_pdf

    papers = [parse_pdf(shared_corpus / f"{name}.pdf", mode, id=f"{name} {mode}")
              for name in ("jose/jose.00197", "jose/jose.00200", "pmc-ocimum/PMC4945999")
              for mode in ("noisy", "columns")]  # fmt: skip
    pairs = near_duplicates(papers)
    assert [(a.split()[0], b.split()[0]) for a, b, _ in pairs] == [
        (name, name) for name in ("jose/jose.00197", "jose/jose.00200", "pmc-ocimum/PMC4945999")
    ]
