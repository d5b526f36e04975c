"""Other people's questions: what is taken from each format, what is left out and why, and errors that name the line."""

from __future__ import annotations

import dataclasses
import json

import pytest
from typer.testing import CliRunner

from library import library
from rlm_core.cli.main import app
from rlm_core.files import read_jsonl, write_json, write_jsonl
from rlm_core.papers import load_library
from rlm_core.papers.texts import text_paper
from rlm_core.params import QueriesParams
from rlm_core.synthesis import write_queries
from rlm_core.synthesis.formats import READERS, evidence_inference, own, qasper
from rlm_core.synthesis.formats.check import checked
from rlm_core.synthesis.formats.rows import EvidenceRow, QuestionRow
from rlm_core.synthesis.imported import together
from rlm_core.synthesis.splits import PaperGroup

RYE = "Winter rye took up most of the nitrate before the frost came."
VETCH = "Hairy vetch fixed nitrogen, but only where the soil was limed."


def lines(path, *rows):
    path.write_text("\n".join(r if isinstance(r, str) else json.dumps(r) for r in rows) + "\n", encoding="utf-8")
    return path


def test_own_jsonl_holds_questions_and_papers(tmp_path):
    file = lines(
        tmp_path / "own.jsonl",
        {
            "paper": "a",
            "title": "On rye",
            "abstract": "Short.",
            "sections": [{"title": "Results", "paragraphs": [RYE]}],
        },
        {"paper": "b", "text": f"First.\n\n{VETCH}"},
        {"question": "Which crop took up nitrate?", "evidence": [{"paper": "a", "text": RYE}], "id": "mine-1"},
    )
    found = own.read(file)
    assert [p.id for p in found.papers] == ["a", "b"]
    assert found.papers[0].text == f"On rye\n\nShort.\n\nResults\n\n{RYE}"
    assert [p.text for p in found.papers[1].paragraphs] == ["First.", VETCH]
    assert found.questions == [
        QuestionRow(question="Which crop took up nitrate?", evidence=(EvidenceRow(paper="a", text=RYE),), id="mine-1")
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "own.jsonl:2: not JSON"),
        ("[1]", "own.jsonl:2: expected an object"),
        ({"title": "x"}, "own.jsonl:2: a line is a question"),
        ({"question": "Why?"}, "own.jsonl:2: evidence: Field required"),
        ({"question": "Why?", "evidence": []}, "own.jsonl:2: evidence: Tuple should have at least 1 item"),
        ({"question": "Why?", "evidence": [{"paper": "a"}]}, "own.jsonl:2: evidence.0.text: Field required"),
        ({"question": "Why?", "evidence": [{"paper": "a", "text": "x"}], "answr": 1}, "answr: Extra inputs"),
        ({"question": "Why?", "evidence": [{"paper": "a", "text": "x"}], "papers": ["b"]}, "lies in a, which 'papers'"),
        ({"paper": "../etc", "text": "x"}, "paper: String should match"),
        ({"paper": "a"}, "give either 'text' or 'sections'"),
    ],
)  # fmt: skip
def test_a_faulty_line_is_named_with_its_field(tmp_path, line, message):
    file = lines(tmp_path / "own.jsonl", {"paper": "a", "text": "x"}, line)
    with pytest.raises(ValueError, match=r"own\.jsonl:2") as raised:
        own.read(file)
    assert message in str(raised.value)


def test_evidence_that_the_paper_lacks_is_counted(tmp_path):
    file = lines(
        tmp_path / "own.jsonl",
        {"paper": "a", "text": RYE},
        {"question": "Held?", "evidence": [{"paper": "a", "text": RYE.replace("rye", "ryc")}]},
        {"question": "Absent?", "evidence": [{"paper": "a", "text": VETCH}]},
        {"question": "On a paper from elsewhere?", "evidence": [{"paper": "z", "text": VETCH}]},
    )
    found = checked(own.read(file))
    assert [q.question for q in found.questions] == ["Held?", "On a paper from elsewhere?"]
    assert found.rejected == {"evidence not in the paper": 1}
    with pytest.raises(ValueError, match="more than one paper"):
        checked(own.read(lines(tmp_path / "twice.jsonl", {"paper": "a", "text": RYE}, {"paper": "a", "text": RYE})))


def qasper_file(path):
    def answer(**options):
        base = {"unanswerable": False, "extractive_spans": [], "yes_no": None, "free_form_answer": "x", "evidence": []}
        return {"answer": base | {"highlighted_evidence": []} | options, "annotation_id": "n", "worker_id": "w"}

    questions = [
        ("Which crop?", [answer(evidence=["FLOAT SELECTED: Table 1"]), answer(evidence=[RYE, VETCH])]),
        ("Which table?", [answer(evidence=["FLOAT SELECTED: Table 1", RYE])]),
        ("Which moon?", [answer(unanswerable=True)]),
        ("Which other text?", [answer(evidence=["Not a paragraph."])]),
    ]
    qas = [
        {"question": q, "question_id": f"id{n}", "nlp_background": "five", "answers": a}
        for n, (q, a) in enumerate(questions)
    ]
    full_text = [
        {"section_name": "Results ::: Crops", "paragraphs": [RYE, VETCH, ""]},
        {"section_name": None, "paragraphs": []},
    ]
    row = {"title": "On rye", "abstract": "Short.", "full_text": full_text, "qas": qas, "figures_and_tables": []}
    path.write_text(json.dumps({"1912.01214": row}), encoding="utf-8")
    return path


def test_qasper_gives_the_first_annotator_whose_evidence_is_text(tmp_path):
    found = checked(qasper.read(qasper_file(tmp_path / "qasper.json")))
    (question,) = found.questions
    assert (question.question, question.id) == ("Which crop?", "id0")
    assert [e.text for e in question.evidence] == [RYE, VETCH]
    assert [s.title for s in found.papers[0].sections] == ["Results ::: Crops"]
    assert found.rejected == {
        "evidence in a figure or table": 1,
        "unanswerable, or without evidence": 1,
        "evidence is no paragraph of the paper": 1,
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", "expected an object"),
        ('{"p": {"title": 3}}', "paper 'p': title: .*full_text: Field required"),
    ],
)
def test_a_faulty_qasper_file_is_named(tmp_path, text, message):
    path = tmp_path / "qasper.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        qasper.read(path)


def test_spans_of_all_annotators_are_joined_and_checked(tmp_path):
    text = f"TITLE: \nOn crops\n\nNo heading of its own.\n\nBODY.RESULTS: \n{RYE} {VETCH}\n\n\nBODY: \nDone."
    rye, vetch = text.index(RYE), text.index(VETCH)

    def mark(a, b):
        return {"start": a, "end": b, "text": text[a:b], "label": "increased"}

    prompts = [[mark(rye, rye + 20), mark(rye + 10, rye + len(RYE)), mark(vetch, vetch + len(VETCH))],
               [mark(rye, rye + 20) | {"text": "moved"}], []]  # fmt: skip
    about = {"outcome": "nitrate", "intervention": "rye", "comparator": "fallow"}
    rows = [{"prompt_id": n, "evidence": marks, **about} for n, marks in enumerate(prompts)]
    found = evidence_inference.read(
        lines(tmp_path / "ei.jsonl", {"pmcid": "P1", "title": "T", "text": text, "questions": rows})
    )
    (question,) = found.questions
    assert [e.text for e in question.evidence] == [RYE, VETCH]
    assert question.question == "What effect does rye have on nitrate, compared with fallow?"
    assert found.rejected == {"a span does not read as it says": 1, "no evidence marked": 1}
    assert found.papers[0].abstract == "No heading of its own."
    assert [s.title for s in found.papers[0].sections] == ["Results"]
    with pytest.raises(ValueError, match=r"ei2.jsonl:1: not a paper .* 'questions'"):
        evidence_inference.read(lines(tmp_path / "ei2.jsonl", {"pmcid": "P1", "text": ""}))


def test_every_span_of_the_evidence_inference_set_is_in_its_paper(shared_eval):
    found = checked(READERS["evidence-inference"](shared_eval / "evidence_inference_dev.jsonl.gz"))
    assert len(found.papers) == 200 and not found.rejected
    assert len(found.questions) == 503
    texts = {p.id: p.text for p in found.papers}
    exact = sum(" ".join(e.text.split()) in texts[e.paper] for q in found.questions for e in q.evidence)
    assert (
        sum(len(q.evidence) for q in found.questions) == 639 and exact >= 600
    )  # the others run over a paragraph's end


def test_a_paper_of_text_knows_its_pages_sections_and_offsets():
    paper = text_paper("p", "T", "A.", [("One", ["x " * 2500]), ("Two", ["y", "z"])])
    assert len(paper.pages) == 2
    assert all(paper.text[p.start :].startswith(p.text) for p in paper.paragraphs)
    assert [(s.title, paper.text[s.start : s.end].split()[-1]) for s in paper.sections] == [("One", "x"), ("Two", "z")]
    assert [paper.page_of(p.start) for p in paper.paragraphs] == [p.page for p in paper.paragraphs]


def questions_on(ocr, *papers):
    """One question on a body paragraph of each paper; several papers in one argument are asked about together."""
    rows = []
    for number, ids in enumerate(p if isinstance(p, tuple) else (p,) for p in papers):
        evidence = [{"paper": i, "text": ocr[i].paragraphs[1].text} for i in ids]
        rows.append({"question": f"What is said in number {number}?", "evidence": evidence, "id": f"n{number}"})
    return rows


def test_imported_questions_are_aligned_split_and_counted(tmp_path):
    groups, ocr, parsed = library()
    rows = questions_on(ocr, "soil0", "soil1", "lamps0", "whales0", "whales1", ("soil0", "soil2"), "soil0")
    rows.append({"question": "On what?", "evidence": [{"paper": "nowhere", "text": "x"}]})
    rows.append({"question": "Lost?", "evidence": [{"paper": "lamps1", "text": VETCH}]})
    file = tmp_path / "questions.jsonl"
    write_jsonl(file, rows)
    params = QueriesParams(writer="import", questions=file, single_per_paper=1)
    report = write_queries(groups, ocr, parsed, params, 42)
    queries = {q.provenance["imported_id"]: q for rows in report.queries.values() for q in rows}
    assert sorted(queries) == ["n0", "n1", "n2", "n3", "n4", "n5"]
    assert queries["n5"].kind == "multi" and queries["n5"].tier == "2"
    assert queries["n5"].paper_ids == ("soil0", "soil1", "soil2", "soil3")
    assert all(e.span and e.span.score == 1.0 for q in queries.values() for e in q.evidence)
    assert report.rejected["beyond queries.single_per_paper or queries.multi_per_group"] == 1
    assert report.rejected["names a paper that was not read"] == 1
    assert report.rejected["evidence not in the parsed text"] == 1


def test_groups_that_a_question_joins_stay_in_one_split():
    groups = [
        PaperGroup("g0", ("a", "b")),
        PaperGroup("g1", ("c",)),
        PaperGroup("g2", ("d",)),
        PaperGroup("g3", ("e",)),
    ]
    question = QuestionRow(question="?", evidence=(EvidenceRow(paper="d", text="x"), EvidenceRow(paper="b", text="y")))
    other = question.model_copy(update={"papers": ("c", "d"), "evidence": (EvidenceRow(paper="c", text="z"),)})
    joined = together(groups, [question, other])
    assert joined == [PaperGroup("g0", ("a", "b", "c", "d")), PaperGroup("g3", ("e",))]


def test_what_is_exported_comes_back(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    groups, ocr, parsed = library()
    report = write_queries(groups, ocr, parsed, QueriesParams(single_per_paper=2), 42)
    for split, queries in report.queries.items():
        write_jsonl(tmp_path / f"data/queries/{split}.jsonl", [q.to_dict() for q in queries])
    for paper in ocr.values():
        write_json(tmp_path / f"data/ocr/{paper.id}.json", dataclasses.replace(paper).to_dict())
    runner = CliRunner()
    every = {q.id: q for rows in report.queries.values() for q in rows}
    for args in (["export", "--out", "q.jsonl"], ["import", "q.jsonl", "--out", "back"]):
        result = runner.invoke(app, ["queries", *args])
        assert result.exit_code == 0, result.output
    back = {row["id"]: row for row in read_jsonl(tmp_path / "back/questions.jsonl")}
    assert back.keys() == every.keys()
    assert all([e["text"] for e in back[i]["evidence"]] == q.gold for i, q in every.items())
    papers = load_library(tmp_path / "back/papers")
    assert all(e.text in papers[e.paper_id].text for q in every.values() for e in q.evidence)
    for args in (["export", "--format", "qasper", "--out", "q.json"],
                 ["import", "q.json", "--format", "qasper", "--out", "q"]):  # fmt: skip
        result = runner.invoke(app, ["queries", *args])
        assert result.exit_code == 0, result.output
    singles = {q.id for q in every.values() if q.kind == "single"}
    assert {row["id"] for row in read_jsonl(tmp_path / "q/questions.jsonl")} == singles
    bad = runner.invoke(app, ["queries", "import", "q.json", "--out", "x"])
    assert bad.exit_code == 2 and "q.json:1: not JSON" in bad.output
