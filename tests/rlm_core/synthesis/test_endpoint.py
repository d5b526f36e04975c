"""The endpoint writer against a scripted model: evidence by number, verification, counted rejects, resume."""

from __future__ import annotations

import json
import re

import pytest
from openai_server import Fault, OpenAIStub

from library import SHARED, SUBJECTS, library
from rlm_core.params import EndpointParams, QueriesParams
from rlm_core.synthesis import write_queries
from rlm_core.synthesis.chat import ChatError
from rlm_core.synthesis.endpoint import EndpointWriter
from rlm_core.synthesis.passages import passages_of

PHRASES = [p for phrases in SHARED.values() for p in phrases]
NUMBERED = re.compile(r"^\[(\d+)\] (.*)$", re.MULTILINE)


class Model:
    """Asks about the shared phrases (multi) or a paper's own ones (single); verifies by the words of the question."""

    def __init__(self) -> None:
        self.writes = self.checks = 0

    def __call__(self, body) -> str:
        user = body["messages"][1]["content"]
        if user.startswith("Question: "):
            self.checks += 1
            question, paragraph = user.removeprefix("Question: ").split("\n\nParagraph:\n")
            topic = question.split(" about ")[-1].rstrip("?")
            return json.dumps({"reason": "it says so", "answers": topic in paragraph})
        self.writes += 1
        rows = [(int(n), text) for n, text in NUMBERED.findall(user)]
        return json.dumps({"questions": self.questions(rows, multi="several of these papers" in user)})

    def questions(self, rows, multi):
        if multi:
            found = {p: [n for n, text in rows if p in text] for p in PHRASES}
            return [{"question": f"What is known about {p}?", "paragraphs": n} for p, n in found.items() if len(n) > 1]
        subject = next(s for names in SUBJECTS.values() for s in names if s in rows[0][1])
        good = [
            {"question": f"What is new about {subject} {own}?", "paragraphs": [n]}
            for n, own in enumerate(["nitrate leaching", "harvest schedule"])
        ]
        return [
            *good,
            {"question": f"What is odd about {subject} nothing?", "paragraphs": [2]},  # not verified
            {"question": "Which paragraph is not there about?", "paragraphs": [99]},
            {"question": "Why " + " ".join(rows[3][1].split()[:9]) + " about?", "paragraphs": [3]},  # quotes
            {"question": "Who is unnamed about?", "paragraphs": []},
        ]  # fmt: skip


def params_of(stub, **options):
    endpoint = EndpointParams(base_url=stub.url, model="writer", **options)
    return QueriesParams(writer="endpoint", endpoint=endpoint, single_per_paper=3)


def test_questions_are_verified_and_evidence_is_cut_by_number(tmp_path):
    groups, ocr, parsed = library()
    model = Model()
    with OpenAIStub.in_thread(model) as stub:
        report = write_queries(groups, ocr, parsed, params_of(stub), 42, cache_folder=tmp_path)
        assert model.writes == 3 + 12
        calls = len(stub.posts)
        again = write_queries(groups, ocr, parsed, params_of(stub), 42, cache_folder=tmp_path)
        assert len(stub.posts) == calls  # nothing is paid for twice
    queries = [q for rows in report.queries.values() for q in rows]
    assert [q for rows in again.queries.values() for q in rows] == queries
    singles = [q for q in queries if q.kind == "single"]
    multis = [q for q in queries if q.kind == "multi"]
    assert len(singles) == 2 * 12
    assert {(q.group_id, q.tier) for q in multis} == {(t, tier) for t in SUBJECTS for tier in ("2", "3-4")}
    for query in queries:
        topic = query.question.split(" about ")[1].rstrip("?")
        assert all(topic in e.text for e in query.evidence)
        assert all(e.text in {p.text for p in ocr[e.paper_id].paragraphs} for e in query.evidence)
        assert query.provenance["writer"] == "endpoint" and query.provenance["model"] == "writer"
    assert report.rejected["names a paragraph that was not shown"] == 12
    assert report.rejected["gives its evidence away"] == 12
    assert report.rejected["no or too many paragraphs named"] == 12
    assert report.rejected["passage not verified"] == report.rejected["too little verified evidence"] == 12
    assert report.usage["requests"] == calls and report.usage["prompt_tokens"] > 0
    assert again.usage["requests"] == 0 and again.usage["reused_replies"] == calls


def test_a_broken_run_keeps_what_came_back(tmp_path):
    groups, ocr, parsed = library()
    model = Model()
    with OpenAIStub.in_thread(model) as stub:
        stub.faults.extend([Fault(delay_seconds=0.0)] * 6 + [Fault(status=401)])
        with pytest.raises(ChatError, match="401"):
            write_queries(groups, ocr, parsed, params_of(stub, max_concurrency=1), 42, cache_folder=tmp_path)
        stub.faults.clear()
        report = write_queries(groups, ocr, parsed, params_of(stub), 42, cache_folder=tmp_path)
    assert report.usage["reused_replies"] >= 5
    assert sum(len(rows) for rows in report.queries.values()) == 2 * 12 + 3 * 3


async def test_a_rival_passage_that_answers_too_drops_the_question():
    _, ocr, _ = library(topics=("soil",))
    passages = passages_of(ocr["soil0"])
    rows = json.dumps(
        {"questions": [{"question": "What happened with winter rye harvest schedule?", "paragraphs": [1]}]}
    )

    def reply(body):
        return rows if "Write" in body["messages"][1]["content"] else '{"reason": "both do", "answers": true}'

    async with OpenAIStub(reply) as stub:
        writer = EndpointWriter(EndpointParams(base_url=stub.url, model="m"))
        await writer._prepare([{"soil0": passages}], 1, 0)
    assert list(writer.single(passages, 1)) == []
    assert writer.rejected["another passage answers as well"] == 1


def test_long_papers_are_thinned_to_what_a_call_shows(monkeypatch):
    from rlm_core.synthesis import endpoint

    _, ocr, _ = library()
    papers = {p: passages_of(ocr[p]) for p in ("soil0", "soil1")}
    monkeypatch.setattr(endpoint, "MAX_PROMPT_CHARS", 1500)
    shown = endpoint._shown(papers)
    assert {p.paper_id for p in shown} == {"soil0", "soil1"}
    assert sum(len(p.text) for p in shown) <= 1600 < sum(len(p.text) for ps in papers.values() for p in ps)
