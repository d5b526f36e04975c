"""Questions of the extractive writer: what they ask, what evidence they have, how they are split and checked."""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest

from library import library
from rlm_core.params import QueriesParams
from rlm_core.records import Query
from rlm_core.synthesis import TextIndex, write_queries
from rlm_core.synthesis.checks import shared_run
from rlm_core.synthesis.words import squeeze

PARAMS = QueriesParams(single_per_paper=4)


@pytest.fixture(scope="module")
def made():
    groups, ocr, parsed = library()
    return write_queries(groups, ocr, parsed, PARAMS, 42), ocr, parsed


def every(report) -> list[Query]:
    return [q for rows in report.queries.values() for q in rows]


def test_every_split_has_a_group_and_no_paper_is_in_two(made):
    report, *_ = made
    papers = {split: {p for q in rows for p in q.paper_ids} for split, rows in report.queries.items()}
    assert all(len(p) == 4 for p in papers.values())
    assert (
        not papers["train"] & papers["val"]
        and not papers["train"] & papers["test"]
        and not papers["val"] & papers["test"]
    )
    assert report.to_dict()["leakage"] == {"papers": 0, "questions": 0, "evidence": 0}


def test_quotas_are_filled(made):
    report, *_ = made
    for rows in report.queries.values():
        kinds = Counter(q.kind for q in rows)
        assert kinds["multi"] == 3
        assert kinds["single"] >= 12  # four papers of four questions at most


def test_single_paper_questions_have_one_paragraph_of_their_paper(made):
    report, ocr, _ = made
    for query in (q for q in every(report) if q.kind == "single"):
        (evidence,) = query.evidence
        assert query.paper_ids == (evidence.paper_id,) and query.tier == "1"
        assert evidence.text in {p.text for p in ocr[evidence.paper_id].paragraphs}
        phrase = query.provenance["phrase"]
        assert phrase in query.question and squeeze(phrase) in squeeze(evidence.text)


def test_multi_paper_questions_have_all_papers_that_mention_their_phrase(made):
    report, ocr, _ = made
    tiers = Counter()
    for query in (q for q in every(report) if q.kind == "multi"):
        tiers[query.tier] += 1
        assert len(query.paper_ids) == 4
        phrase = squeeze(query.provenance["phrase"])
        mention = {p for p in query.paper_ids if phrase in squeeze(ocr[p].text)}
        assert mention == {e.paper_id for e in query.evidence} and len(mention) >= 2
    assert tiers["2"] and tiers["3-4"]


def test_evidence_lies_where_its_span_says(made):
    report, _, parsed = made
    for query in every(report):
        for evidence in query.evidence:
            text = parsed[evidence.paper_id].text
            assert evidence.span is not None and evidence.span.score == 1.0
            assert squeeze(text[evidence.span.start : evidence.span.end]) == squeeze(evidence.text)


def test_no_question_gives_its_evidence_away(made):
    report, *_ = made
    assert all(shared_run(q.question, e.text) <= 5 for q in every(report) for e in q.evidence)


def test_ids_are_stable_and_rows_come_back(made):
    report, ocr, parsed = made
    groups, *_ = library()
    again = write_queries(groups, ocr, parsed, PARAMS, 42)
    assert [q.id for q in every(again)] == [q.id for q in every(report)]
    assert len({q.id for q in every(report)}) == len(every(report))
    query = every(report)[0]
    assert Query.from_dict(query.to_dict()) == query
    assert query.provenance["writer"] == "extractive" and query.provenance["ocr_dpi"] == 150
    assert query.provenance["ocr_engine"] == "rapidocr" and query.provenance["parser"] == "pdfplumber"


def test_another_seed_words_or_splits_otherwise(made):
    report, ocr, parsed = made
    groups, *_ = library()
    other = write_queries(groups, ocr, parsed, PARAMS, 7)
    assert [q.question for q in every(other)] != [q.question for q in every(report)]


def test_evidence_that_the_parser_lost_is_counted_and_dropped(made):
    _, ocr, parsed = made
    groups, *_ = library()
    lost = {k: dataclasses.replace(p, pages=p.pages[:1]) if k == "soil0" else p for k, p in parsed.items()}
    report = write_queries(groups, ocr, lost, PARAMS, 42)
    assert report.rejected["evidence not in the parsed text"] > 0
    index = TextIndex(lost["soil0"].text)
    for query in every(report):
        for evidence in query.evidence:
            assert evidence.paper_id != "soil0" or index.locate(evidence.text)


def test_a_phrase_that_search_cannot_find_is_not_asked_for(made):
    _, ocr, parsed = made
    groups, *_ = library()
    pages = {k: tuple(t.replace("lysimeter", "lysXmeter") for t in p.pages) for k, p in parsed.items()}
    broken = {k: dataclasses.replace(p, pages=pages[k]) for k, p in parsed.items()}
    report = write_queries(groups, ocr, broken, PARAMS, 42)
    assert report.rejected["key phrase broken in the parsed text"] > 0
    assert not any("lysimeter" in q.provenance["phrase"] for q in every(report))


def test_two_groups_are_split_by_paper_and_say_so():
    groups, ocr, parsed = library(topics=("soil", "lamps"))
    report = write_queries(groups, ocr, parsed, PARAMS, 42)
    assert "only 2 group(s)" in report.warnings[0]
    papers = [{p for q in rows for p in q.paper_ids} for rows in report.queries.values()]
    assert all(papers) and sum(map(len, papers)) == len(set.union(*papers))


def test_five_papers_of_one_folder_get_somewhere():
    groups, ocr, parsed = library(topics=("soil",), papers=3)
    report = write_queries(groups, ocr, parsed, PARAMS, 42)
    assert all(len(rows) >= 1 for rows in report.queries.values())


def test_unusable_libraries_are_refused():
    groups, ocr, parsed = library(topics=("soil",), papers=2)
    with pytest.raises(ValueError, match="at least 3"):
        write_queries(groups, ocr, parsed, PARAMS, 42)
    with pytest.raises(ValueError, match="no group holds"):
        write_queries(groups, {}, parsed, PARAMS, 42)
    with pytest.raises(ValueError, match="two groups"):
        write_queries(groups * 2, ocr, parsed, PARAMS, 42)


def test_a_paper_missing_on_one_side_is_left_out_with_a_warning():
    groups, ocr, parsed = library()
    del parsed["whales2"]
    report = write_queries(groups, ocr, parsed, PARAMS, 42)
    assert any("whales2" in w for w in report.warnings)
    assert not any("whales2" in q.paper_ids for q in every(report))


def test_the_same_paragraph_in_two_splits_does_not_train(made):
    groups, ocr, parsed = library()
    report, *_ = made
    train, test = (report.queries[s][-1].paper_ids[0] for s in ("train", "test"))
    # The test paper now begins with a paragraph of the training paper.
    first = next(q for q in report.queries["train"] if q.paper_ids == (train,)).evidence[0].text
    stolen = next(p for p in ocr[train].paragraphs if p.text == first)
    ocr[test] = dataclasses.replace(ocr[test], paragraphs=(stolen, *ocr[test].paragraphs))
    parsed[test] = dataclasses.replace(parsed[test], pages=(first, *parsed[test].pages))
    figures = write_queries(groups, ocr, parsed, QueriesParams(single_per_paper=8), 42).to_dict()
    reasons = ("evidence also in another split", "near-duplicate question")
    assert sum(figures["rejected"].get(reason, 0) for reason in reasons) > 0
    assert figures["leakage"]["evidence"] == 0
