"""The endpoint writer against a scripted model: evidence by number, verification, counted rejects, resume."""

from __future__ import annotations

import json
import re

import pytest
from openai_server import Fault, OpenAIStub

from library import SHARED, SUBJECTS, library
from rlm_core.params import EndpointParams, QueriesParams
from rlm_core.synthesis import write_queries
from rlm_core.synthesis.chat import ChatError, Unreadable
from rlm_core.synthesis.endpoint import EndpointWriter
from rlm_core.synthesis.endpoint_prompts import Lines, read_proposals
from rlm_core.synthesis.passages import Passage, passages_of
from rlm_core.synthesis.writing import plan_queries

PHRASES = [p for phrases in SHARED.values() for p in phrases]
NUMBERED = re.compile(r"^\[(\d+)\] (.*)$", re.MULTILINE)


def around(line: int) -> dict[str, int]:
    """A made-up paragraph has two sentences, so its lines are 2n and 2n + 1."""
    return {"first": line, "last": line}


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
            found = {p: [around(n) for n, text in rows if p in text] for p in PHRASES}
            return [{"question": f"What is known about {p}?", "evidence": n} for p, n in found.items() if len(n) > 1]
        subject = next(s for names in SUBJECTS.values() for s in names if s in rows[0][1])
        good = [
            {"question": f"What is new about {subject} {own}?", "evidence": [around(2 * n)]}
            for n, own in enumerate(["nitrate leaching", "harvest schedule"])
        ]
        return [
            *good,
            {"question": f"What is odd about {subject} nothing?", "evidence": [around(4)]},  # not verified
            {"question": "Which line is not there about?", "evidence": [around(99)]},
            {"question": "Which lines are of two paragraphs about?", "evidence": [{"first": 1, "last": 2}]},
            {"question": "Which lines run backwards about?", "evidence": [{"first": 1, "last": 0}]},
            {"question": "Why " + " ".join(rows[6][1].split()[:9]) + " about?", "evidence": [around(6)]},  # quotes
            {"question": "Who is unnamed about?", "evidence": []},
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
        for evidence in query.evidence:
            assert any(
                p.text.startswith(evidence.text) for p in ocr[evidence.paper_id].paragraphs
            )  # its first sentence
            assert evidence.text.endswith(".") and evidence.text.count(".") == 1
        assert query.provenance["writer"] == "endpoint" and query.provenance["model"] == "writer"
    assert report.rejected["names lines that were not shown or lie in several paragraphs"] == 3 * 12
    assert report.rejected["gives its evidence away"] == 12
    assert report.rejected["no or too many passages named"] == 12
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
        {"questions": [{"question": "What happened with winter rye harvest schedule?", "evidence": [around(2)]}]}
    )

    def reply(body):
        return rows if "Write" in body["messages"][1]["content"] else '{"reason": "both do", "answers": true}'

    async with OpenAIStub(reply) as stub:
        writer = EndpointWriter(EndpointParams(base_url=stub.url, model="m"))
        await writer._prepare([{"soil0": passages}], 1, 0)
    assert list(writer.single(passages, 1)) == []
    assert writer.rejected["another passage answers as well"] == 1


def test_the_plan_is_made_without_a_call_and_bounds_the_cost(tmp_path):
    groups, ocr, parsed = library()
    model = Model()
    with OpenAIStub.in_thread(model) as stub:
        params = params_of(stub, price_in_per_million=2.0, price_out_per_million=10.0)
        plan = plan_queries(groups, ocr, parsed, params, 42, cache_folder=tmp_path)
        assert stub.posts == []
        report = write_queries(groups, ocr, parsed, params, 42, cache_folder=tmp_path)
        again = plan_queries(groups, ocr, parsed, params, 42, cache_folder=tmp_path)
    # 3 groups and 12 papers are asked for 3 questions each, and half as many again, rounded up: 5.
    assert (plan.write_calls, plan.questions, plan.kept_replies) == (15, 15 * 5, 0)
    assert plan.checks == round(12 * 5 * 2.2 + 3 * 5 * 4.5)
    assert plan.cost == pytest.approx(2e-6 * plan.prompt_tokens + 10e-6 * plan.completion_tokens)
    usage = report.usage
    assert usage["cost"] == pytest.approx(2e-6 * usage["prompt_tokens"] + 10e-6 * usage["completion_tokens"])
    assert plan.prompt_tokens > usage["prompt_tokens"]  # the stub counts words
    assert (again.write_calls, again.kept_replies, again.cost) == (0, 15, 0.0)
    assert "15 calls for 75 questions" in plan.sentence() and "answered by an earlier run" in again.sentence()
    with pytest.raises(ValueError, match="asks no endpoint"):
        plan_queries(groups, ocr, parsed, QueriesParams(), 42)


def test_without_prices_the_cost_is_unknown_not_zero(tmp_path):
    groups, ocr, parsed = library()
    with OpenAIStub.in_thread(Model()) as stub:
        plan = plan_queries(groups, ocr, parsed, params_of(stub), 42)
        report = write_queries(groups, ocr, parsed, params_of(stub), 42)
    assert plan.cost is None and "unknown" in plan.sentence() and "cost" not in report.usage


def test_lines_are_sentences_numbered_through_and_cut_exactly():
    passages = [
        Passage("a", 0, "One is here. Two, by Smith et al. Three? Four."),
        Passage("a", 1, "Five."),
        Passage("b", 0, "Six."),
    ]
    lines = Lines(passages)
    assert lines.text() == (
        "\n# Paper a\n\n\n[0] One is here.\n[1] Two, by Smith et al. Three?\n[2] Four.\n\n[3] Five.\n\n# Paper b\n\n\n[4] Six."
    )
    assert lines.cut(0, 1).text == "One is here. Two, by Smith et al. Three?"
    assert (lines.cut(4, 4).paper_id, lines.cut(4, 4).text) == ("b", "Six.")
    assert lines.cut(2, 3) is None and lines.cut(3, 9) is None and lines.cut(-1, 0) is None


@pytest.mark.parametrize(
    "evidence", [None, [3], [{"first": 1}], [{"first": True, "last": 2}], [{"first": "1", "last": 2}]]
)
def test_a_reply_of_another_shape_is_unreadable(evidence):
    with pytest.raises(Unreadable):
        read_proposals({"questions": [{"question": "Why?", "evidence": evidence}]})


def test_long_papers_are_thinned_to_what_a_call_shows(monkeypatch):
    from rlm_core.synthesis import endpoint_plan

    _, ocr, _ = library()
    papers = {p: passages_of(ocr[p]) for p in ("soil0", "soil1")}
    monkeypatch.setattr(endpoint_plan, "MAX_PROMPT_CHARS", 1500)
    shown = endpoint_plan.shown_passages(papers)
    assert {p.paper_id for p in shown} == {"soil0", "soil1"}
    assert sum(len(p.text) for p in shown) <= 1600 < sum(len(p.text) for ps in papers.values() for p in ps)
