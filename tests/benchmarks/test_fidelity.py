"""The measures of a reading, each against a sum made by hand; sources of three kinds read for what they hold."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # `benchmarks` is no installed package

from benchmarks.fidelity import compare, covered, headings, order, whole, words
from benchmarks.publishers import TrueParagraph, Truth, read_jats, read_latex, read_myst, read_truth
from rlm_core.papers import Paper, Paragraph, Section
from rlm_core.synthesis import TextIndex

ONE = "Barley was sown in the first week of April on all plots of the station, "
ONE += "and it was rolled once by hand there before the rain came."
TWO = "The yield of the drained plots was higher by a fifth in every year but the driest one, "
TWO += "as the farmers had said, and fell again."


def test_words_fold_case_and_ligatures():
    assert words("The eﬃcient Field, the field") == Counter({"the": 2, "field": 2, "efficient": 1})


def test_words_count_as_often_as_they_are_true():
    # true: a a b; there: a c -> 1 of 3 found, 1 of 2 true
    true, there = Counter("aab"), Counter("ac")
    assert (covered(true, there), covered(there, true)) == (pytest.approx(1 / 3), 0.5)
    assert covered(Counter(), there) == 1.0


def test_headings_match_without_numbers_and_within_one_letter_in_ten():
    true = ["Introduction", "Materials and methods", "Results"]
    read = ["Abstract", "1 Introduction", "2. Materials and rnethods", "Table 3", "References", "Smith J"]
    # 2 of 3 found; before the references, and "Abstract" aside, 2 of 3 are true
    assert headings(true, read) == (pytest.approx(2 / 3), pytest.approx(2 / 3))


def test_order_is_kendalls_tau():
    three = "Weeds were counted by hand in July, and the counts were repeated by a second person."
    sentences = [ONE, TWO, three]
    kept = TextIndex("\n".join(sentences))
    assert order(kept, sentences) == pytest.approx(1.0)
    swapped = TextIndex("\n".join([sentences[1], sentences[0], sentences[2]]))
    assert order(swapped, sentences) == pytest.approx(1 / 3)  # 2 pairs right, 1 wrong, of 3
    assert order(kept, ["Too short."]) is None


def test_whole_paragraphs():
    assert whole([ONE, TWO], [ONE.replace("station", "stat1on"), TWO[:50]]) == 0.5


def test_a_perfect_reading_has_perfect_figures_and_a_leak_costs_precision():
    truth = Truth(
        "On barley and drains", "We grew it.", ("Methods",), (TrueParagraph(ONE, True), TrueParagraph(TWO, True)), ""
    )
    text = "\n\n".join([truth.title, truth.abstract, "1 Methods", ONE, TWO])
    body = tuple(Paragraph(t, 1, (0, 0, 1, 1)) for t in (ONE, TWO))
    paper = Paper("p", truth.title, truth.abstract, (text,), (Section("1 Methods", 0, 9),), body)
    figures = compare(paper, truth)
    assert (figures.word_recall, figures.char_error, figures.order_tau, figures.paragraphs_whole) == (
        1.0,
        0.0,
        1.0,
        1.0,
    )
    assert (figures.section_recall, figures.section_precision, figures.title, figures.abstract_recall) == (
        1,
        1,
        True,
        1,
    )
    n = len(ONE.split()) + len(TWO.split())
    leak = Paragraph("Legend of " + "x " * 20, 1, (0, 0, 1, 1))
    leaking = Paper("p", "", "", (text,), (), (*body, leak))
    # all words of the two paragraphs are true; of the legend's 22 none is but one "of" at most
    assert compare(leaking, truth).body_precision == pytest.approx(n / (n + 22), abs=0.02)
    noisy = compare(Paper("p", "", "", (text,)), truth)
    assert (noisy.body_precision, noisy.paragraphs_whole, noisy.abstract_recall, noisy.title) == (
        None,
        None,
        0.0,
        False,
    )


def test_character_error_is_edit_distance_over_letters():
    truth = Truth("", "", (), (TrueParagraph(ONE, True), TrueParagraph(TWO, False)), "")
    wrong = ONE.replace("first", "f1rst").replace("rolled", "rol1ed") + "\n\n" + TWO.replace("yield", "yi3ld")
    figures = compare(Paper("p", pages=(wrong,)), truth)
    assert figures.char_error == pytest.approx(2 / sum(c.isalnum() for c in ONE))  # the second is not complete


JATS = """<article><front><article-meta><title-group><article-title>On <italic>barley</italic></article-title></title-group>
<abstract><p>We grew it.</p></abstract></article-meta></front><body><sec><title>Methods</title>
<p>It grew <xref>[1]</xref> well.<fig><caption><p>A legend.</p></caption></fig></p>
<p>With <inline-formula><tex-math>x^2</tex-math></inline-formula> plots.</p>
<p>Namely:<list><list-item><p>first item</p></list-item></list></p></sec></body>
<back><ack><title>Thanks</title><p>To all.</p></ack></back></article>"""

MYST = """---
title: On barley
abstract: We grew it.
---
## Methods
It grew [well](https://example.org), said [@smith] and _all_.

- first item
- second `item`

:::{figure} a.png
A legend.
:::

```python
x = 1
```
"""

LATEX = r"""\title[Barley]{On barley}
\begin{abstract}We grew it.\end{abstract}
\section{Methods}\label{m}
It grew \textbf{well} \citep{smith}. % a note
\begin{itemize}\item first item\item second \texttt{item}\end{itemize}
\begin{figure}\caption{A legend.}\end{figure}
"""


ITEMS = [("first item", True), ("second item", True)]
OF_JATS = [("It grew [1] well.", True), ("With plots.", False), ("Namely:", True), ("first item", True)]


@pytest.mark.parametrize(
    ("truth", "paragraphs", "sections"),
    [
        (read_jats(JATS), OF_JATS, ("Methods", "Thanks")),
        (read_myst(MYST), [("It grew well, said and all.", False), *ITEMS], ("Methods",)),
        (read_latex(LATEX), [("It grew well .", False), *ITEMS], ("Methods",)),
    ],
    ids=["jats", "myst", "latex"],
)
def test_sources(truth, paragraphs, sections):
    assert (truth.title, truth.abstract, truth.sections) == ("On barley", "We grew it.", sections)
    assert [(p.text, p.complete) for p in truth.paragraphs] == paragraphs
    assert "A legend." in truth.text


def test_another_kind_of_source_is_refused(tmp_path):
    path = tmp_path / "paper.html"
    path.write_text("<p>")
    with pytest.raises(ValueError, match=r"neither \.jats\.xml nor \.md nor \.tex"):
        read_truth(path)


def test_sources_of_the_corpus_hold_prose(shared_corpus):
    truths = [read_truth(p) for p in shared_corpus.glob("*/*") if p.name.endswith((".jats.xml", ".md", ".tex"))]
    assert len(truths) == 20
    assert all(len(t.paragraphs) >= 14 and t.title and len(t.sections) >= 4 for t in truths)
