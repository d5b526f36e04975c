"""Key phrases, the checks that questions pass, and splits, on small cases worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm_core.papers.records import Paper, Paragraph
from rlm_core.synthesis import templates
from rlm_core.synthesis.checks import gives_away, near_duplicates, shared_run
from rlm_core.synthesis.passages import PaperIndex, Passage, is_prose, passages_of
from rlm_core.synthesis.phrases import key_of, phrases_of
from rlm_core.synthesis.splits import PaperGroup, split_groups


def test_phrases_stop_at_stop_words_verbs_numbers_and_punctuation():
    text = "Soil moisture sensors were calibrated in 12 tanks, and the data logger (a Kessel model) quickly failed."
    texts = [p.text for p in phrases_of(text)]
    assert texts[0] == "soil moisture sensors"
    assert "Kessel model" in texts
    assert not any("calibrated" in t or "12" in t or "quickly" in t for t in texts)


def test_a_phrase_knows_its_place_and_its_inflections():
    text = "The trial used copper sleeves."
    (phrase,) = [p for p in phrases_of(text) if "copper" in p.text]
    assert text[phrase.start :].startswith("copper sleeves")
    assert key_of("Copper-Sleeve") == key_of("copper sleeves") == phrase.key


@given(st.text(max_size=300))
def test_phrases_of_any_text_stand_in_it(text):
    for phrase in phrases_of(text):
        assert 1 <= len(phrase.text.split()) <= 4
        assert 0 <= phrase.start < len(text)


def test_the_shared_run_is_counted_in_words():
    assert shared_run("Where do copper sleeves of one rod help?", "We cut copper sleeves, of one rod, twice.") == 5
    assert shared_run("a b c", "x y z") == 0
    assert gives_away("Say how copper sleeves of one long rod help", ["copper sleeves of one long rod"])
    assert not gives_away("Where do copper sleeves matter?", ["copper sleeves of one long rod"])


def test_rewordings_are_duplicates_and_other_topics_are_not():
    questions = [
        "What does the paper say about copper sleeves and probe drift?",
        "Which passage links copper sleeves to probe drift?",
        "Which passage links visitor surveys to paper diaries?",
    ]
    assert near_duplicates(questions) == [1]


def test_templates_name_the_phrase_once_and_are_all_different():
    for group in (templates.SINGLE_CUE, templates.SINGLE, templates.MULTI):
        assert len(set(group)) == len(group) >= 8
        assert all(t.count("{phrase}") == 1 for t in group)
    assert all(t.count("{cue}") == 1 for t in templates.SINGLE_CUE)


def test_tables_and_credits_are_no_evidence():
    prose = (
        "The loss through the upper layer was followed with cups for nine seasons, and it fell to a third after that. "
        * 2
    )
    assert Passage("p", 0, prose.strip()).can_be_evidence
    assert not Passage("p", 0, prose.strip(), section="Acknowledgements").can_be_evidence
    assert not Passage("p", 0, prose.strip(), kind="caption").can_be_evidence
    assert not Passage(
        "p", 0, "This work was supported by a grant of the Kessel foundation. " + prose.strip()
    ).can_be_evidence
    assert not is_prose("1.2 3.4 5.6 7.8 9.1 2.3 4.5 6.7 8.9 1.2 3.4 5.6 7.8 9.1 2.3 4.5 6.7 8.9 1.2 3.4 5.6.")


def test_the_margin_says_whether_another_passage_answers_as_well():
    texts = ["copper sleeves held the probe drift", "copper sleeves held the probe drift", "reeds hold silt back"]
    passages = [Passage("p", i, t) for i, t in enumerate(texts)]
    index = PaperIndex(passages)
    assert index.margin("copper sleeves and drift", {0}) == pytest.approx(1.0)
    assert index.margin("reeds and silt", {2}) == float("inf")
    assert index.margin("unheard words", {0}) == 0.0


groups_of_papers = st.lists(st.integers(1, 6), min_size=3, max_size=30)


@given(groups_of_papers, st.integers(0, 99), st.floats(0, 0.45), st.floats(0, 0.45))
def test_every_group_is_in_one_split_and_every_split_has_one(sizes, seed, val_share, test_share):
    groups = [PaperGroup(f"g{i}", tuple(f"{i}.{n}" for n in range(size))) for i, size in enumerate(sizes)]
    parts, cut = split_groups(groups, val_share=val_share, test_share=test_share, seed=seed)
    assert not cut and all(parts.values())
    assert sorted(g.id for part in parts.values() for g in part) == sorted(g.id for g in groups)
    again, _ = split_groups(groups[::-1], val_share=val_share, test_share=test_share, seed=seed)
    assert {s: {g.id for g in p} for s, p in again.items()} == {s: {g.id for g in p} for s, p in parts.items()}


def test_one_group_is_dealt_out_by_paper():
    group = PaperGroup("g", ("a", "b", "c", "d", "e"))
    parts, cut = split_groups([group], val_share=0.15, test_share=0.3, seed=1)
    assert cut
    dealt = {split: part[0].paper_ids for split, part in parts.items()}
    assert [len(dealt[s]) for s in ("train", "val", "test")] == [2, 1, 2]
    assert sorted(p for papers in dealt.values() for p in papers) == ["a", "b", "c", "d", "e"]
    assert parts["val"][0].id == "g.val"


def test_a_long_paragraph_is_cut_where_sentences_end():
    sentence = "The trees of O. sanctum grew as Smith et al. (2010) and Fig. 3 show, which took a year or so. "
    paper = Paper(id="p", paragraphs=(Paragraph((sentence * 15).strip(), 1, (0, 0, 1, 1), section="Results"),))
    passages = passages_of(paper)
    assert " ".join(p.text for p in passages) == (sentence * 15).strip()
    assert [len(p.text) for p in passages] == [pytest.approx(1410 / 3, abs=95)] * 3
    assert all(p.text.startswith("The trees") and p.text.endswith("or so.") and p.can_be_evidence for p in passages)
    whole = "x" * 2000  # no sentence ends: it stays whole, and cannot be evidence
    (passage,) = passages_of(Paper(id="p", paragraphs=(Paragraph(whole, 1, (0, 0, 1, 1)),)))
    assert passage.text == whole and not passage.can_be_evidence


@pytest.mark.parametrize(
    ("text", "wanted", "unwanted"),
    [
        ("Of these, the sensor package provides a driver.", "sensor package", "provides"),
        ("Of these, the primer set amplifies many loci.", "primer set", "amplifies"),
        ("It builds on each other's progress in chemistry.", None, "other's"),
        ("They say that it's reasonable and it doesn't reflect much.", None, "it's"),
        ("We saw the background threads running at night.", "background threads", "running"),
        ("We used deep learning for all of it.", "deep learning", None),
        ("In 1994 the United Nations Convention was signed.", "United Nations Convention", None),
        ("It then inhibited C. albicans biofilms at once.", "C. albicans biofilms", None),
        ("It was all done by then. Seed oils were pressed.", "seed oils", None),
        ("It is held by the Data Team (Wong Annie, 2022) for all.", None, "Wong Annie"),
        ("Made after Andrew G. Barto's fundamentals book.", "Barto's fundamentals book", "barto's"),
    ],
)
def test_phrases_of_real_papers_hold_no_verbs_half_names_or_citations(text, wanted, unwanted):
    texts = [p.text for p in phrases_of(text)]
    assert wanted is None or wanted in texts
    assert unwanted is None or not any(unwanted in t for t in texts)


def test_a_name_keeps_its_capital_where_a_sentence_begins_with_it():
    sentences = [
        "Candida isolates were kept.",
        "They hold Candida isolates.",
        "Rubber gaskets were kept, as rubber is.",
    ]
    paper = Paper(
        id="p", title="t", pages=("x",), paragraphs=tuple(Paragraph(s, 1, (0.0, 0.0, 1.0, 1.0)) for s in sentences)
    )
    first, _, last = passages_of(paper)
    assert [p.text for p in first.phrases] == ["Candida isolates"]
    assert [p.text for p in last.phrases] == ["rubber gaskets"]


def test_the_cells_of_a_table_are_no_prose():
    assert not is_prose("stdsc noop gb minmax noop powertf factor norm noop minmax robust " * 4 + "pipeline.")
    assert is_prose("The pipeline of the second block was the best that we had in all of these data sets and trials.")
