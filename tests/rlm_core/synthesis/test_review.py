"""The review page over HTTP: what it shows, whom it answers, how marks are kept and counted."""

from __future__ import annotations

import dataclasses
import http.client
import json
import re
import threading
from collections import Counter

import pytest

from library import library
from rlm_core.papers.records import Paper, Paragraph
from rlm_core.papers.sample import write_sample_library
from rlm_core.params import QueriesParams
from rlm_core.records import Evidence, Query, Span
from rlm_core.synthesis import write_queries
from rlm_core.synthesis.marks import Mark, add_mark, bad_ids, read_marks, summary, wilson
from rlm_core.synthesis.review import ReviewServer, draw
from rlm_core.synthesis.review.places import Place, place_of

HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(2)>'


def query(n: int, kind="single", tier="1", text="Rye took up nitrate.", paper="paper") -> Query:
    return Query(f"q{n}", f"Which crop, number {n}?", kind, tier, (paper,), (Evidence(paper, text, Span(0, 5)),))


@pytest.fixture(scope="module")
def pdfs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pdfs")
    write_sample_library(folder, topics=1, papers_per_topic=1)
    next(folder.glob("*.pdf")).rename(folder / "paper.pdf")
    return folder


@pytest.fixture
def server(pdfs, tmp_path):
    box = (61.2, 79.2, 306.0, 158.4)  # 10 to 50 % of the width of Letter paper, 10 to 20 % of its height
    clean = Paper("paper", paragraphs=(Paragraph("Rye took up nitrate.", 1, box),))
    parsed = Paper("paper", title=HOSTILE, pages=("Rye took up nitrate.",))
    hostile = dataclasses.replace(
        query(2, text=HOSTILE, paper="../paper"), question=HOSTILE, provenance={"model": HOSTILE}
    )
    made = ReviewServer(
        [query(1), hostile], clean={"paper": clean}, parsed={"paper": parsed}, pdfs=pdfs, marks=tmp_path / "marks.jsonl"
    )
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    thread.join(5)
    made.server_close()


def ask(server, method, path, body=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    connection.request(method, path, body, {k.replace("_", "-"): v for k, v in headers.items()})
    reply = connection.getresponse()
    data = reply.read()
    connection.close()
    return reply, data


def send(server, row, **headers):
    given = {"X_Review_Token": server.token, "Origin": server.url.rstrip("/"), **headers}
    return ask(server, "POST", "/marks", json.dumps(row), **{k: v for k, v in given.items() if v})


def test_the_page_shows_each_question_with_its_place_on_the_page(server):
    reply, body = ask(server, "GET", "/")
    page = body.decode()
    assert reply.status == 200 and "Which crop, number 1?" in page
    width, height = server._percent("paper", Place(1, ((0, 0, 100, 100),)))[0][2:]
    x, y, w, h = map(
        float, re.search(r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"', page).groups()
    )
    assert (x, w) == (pytest.approx(0.612 * width, abs=0.01), pytest.approx(2.448 * width, abs=0.01))
    assert (y, h) == (pytest.approx(0.792 * height, abs=0.01), pytest.approx(0.792 * height, abs=0.01))
    reply, image = ask(server, "GET", "/page/q1/0.png")
    assert reply.status == 200 and image.startswith(b"\x89PNG")


def test_hostile_text_is_only_text_and_an_id_is_no_path(server):
    page = ask(server, "GET", "/")[1].decode()
    assert "<script>alert" not in page and "<img src=x" not in page and page.count("<script") == 1
    assert page.count("&lt;script&gt;alert(1)") >= 3  # question, evidence, provenance
    policy = ask(server, "GET", "/")[0].headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    assert ask(server, "GET", "/page/q2/0.png")[0].status == 404  # its paper's id leads out of the folder
    for path in ("/page/q1/1.png", "/page/q1/x.png", "/page/q9/0.png", "/page/../marks.jsonl", "/marks", "/etc/passwd"):
        assert ask(server, "GET", path)[0].status == 404


def test_marks_are_kept_and_the_last_one_counts(server, tmp_path):
    assert send(server, {"query_id": "q1", "verdict": "good"})[0].status == 200
    assert send(server, {"query_id": "q1", "verdict": "bad", "word": " too\nvague "})[0].status == 200
    assert read_marks(tmp_path / "marks.jsonl") == {"q1": Mark("q1", "bad", "too vague", "Which crop, number 1?")}
    page = ask(server, "GET", "/")[1].decode()
    assert "<b>1</b> of 2 marked" in page and 'value="too vague"' in page


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "evil.example"}, 403),
        ({"X_Review_Token": "guessed"}, 403),
        ({"X_Review_Token": None}, 403),
        ({"Origin": None}, 200),
    ],
)
def test_only_its_own_page_may_mark(server, tmp_path, headers, status):
    reply, _ = send(server, {"query_id": "q1", "verdict": "good"}, **headers)
    assert reply.status == status
    assert (tmp_path / "marks.jsonl").exists() == (status == 200)


def test_a_name_that_resolves_to_the_loopback_leads_nowhere(server):
    assert ask(server, "GET", "/", Host=f"rebound.example:{server.server_port}")[0].status == 403
    assert ask(server, "GET", "/", Host=f"localhost:{server.server_port}")[0].status == 200
    assert server.server_address[0] == "127.0.0.1"


@pytest.mark.parametrize(
    "row", [[], {}, {"query_id": "q9", "verdict": "good"}, {"query_id": "q1", "verdict": "fine"},
            {"query_id": "q1", "verdict": "good", "word": "x" * 301}, {"query_id": ["q1"], "verdict": "good"}]
)  # fmt: skip
def test_other_marks_are_refused(server, tmp_path, row):
    assert send(server, row)[0].status == 400
    assert not (tmp_path / "marks.jsonl").exists()


def test_a_body_too_large_or_no_json_is_refused(server):
    assert ask(server, "POST", "/marks", "x" * 20_000, X_Review_Token=server.token)[0].status == 413
    assert ask(server, "POST", "/marks", "{", X_Review_Token=server.token)[0].status == 400
    assert ask(server, "GET", "/")[0].status == 200


def test_places_come_from_ocr_paragraphs_else_from_the_parsed_text():
    box, other = (1.0, 2.0, 3.0, 4.0), (5.0, 6.0, 7.0, 8.0)
    long = "Hairy vetch fixed nitrogen, but only where the soil was limed."
    paragraphs = (Paragraph("Winter rye took up ni-trate.", 2, box), Paragraph(long, 3, other))
    clean = Paper("p", paragraphs=paragraphs)
    parsed = Paper("p", pages=("x" * 100, "y" * 100))
    assert place_of(Evidence("p", "rye took up nitrate"), clean, parsed) == Place(2, (box,))
    assert place_of(Evidence("p", f"Before. {long} After."), clean, parsed) == Place(3, (other,))
    assert place_of(Evidence("p", "absent", Span(150, 160)), clean, parsed) == Place(2, ())
    assert place_of(Evidence("p", "absent"), clean, parsed) is None


def test_every_tier_is_drawn_and_the_same_again():
    queries = (
        [query(n) for n in range(60)] + [query(n, "multi", "2") for n in range(60, 99)] + [query(99, "multi", "5+")]
    )
    drawn = draw(queries, 10, 1)
    # One seat each; then the highest of 60/3, 60/5, 60/7, 60/9, 60/11 = 5.45 and of 39/3, 39/5, 39/7 = 5.57 seven times.
    assert Counter(q.tier for q in drawn) == {"1": 5, "2": 4, "5+": 1}
    assert draw(queries[::-1], 10, 1) == drawn and draw(queries, 10, 2) != drawn
    assert len(draw(queries[:3], 10, 1)) == 3


def test_the_share_of_good_has_its_wilson_interval():
    # z = 1.96, n = 10, p = 0.8: centre (0.8 + 0.19208) / 1.38416, half width 1.96 / 1.38416 * sqrt(0.016 + 0.0096).
    assert wilson(8, 10) == (pytest.approx(0.4902, abs=1e-3), pytest.approx(0.9433, abs=1e-3))
    assert wilson(0, 0) == (0.0, 1.0) and wilson(3, 3)[1] == 1.0
    marks = [Mark("q0", "good"), Mark("q1", "bad"), Mark("q2", "good"), Mark("gone", "bad")]
    rows = {r["questions"]: r for r in summary(marks, [query(0), query(1), query(2, "multi", "2")])}
    assert (rows["all"]["good"], rows["all"]["marked"]) == (2, 3)
    assert (rows["single, tier 1"]["share_good"], rows["multi, tier 2"]["share_good"]) == (0.5, 1.0)


def test_a_question_marked_bad_is_not_made_again(tmp_path):
    groups, ocr, parsed = library()
    params = QueriesParams(single_per_paper=2, multi_per_group=0, marks=tmp_path / "marks.jsonl")
    first = write_queries(groups, ocr, parsed, params, 42)
    bad, good = first.queries["test"][:2]
    add_mark(params.marks, Mark(bad.id, "bad"))
    add_mark(params.marks, Mark(good.id, "bad"))
    add_mark(params.marks, Mark(good.id, "good"))
    second = write_queries(groups, ocr, parsed, params, 42)
    ids = {q.id for rows in second.queries.values() for q in rows}
    assert bad.id not in ids and good.id in ids
    assert second.rejected["marked bad by a reader"] == 1
    assert bad_ids(tmp_path / "none.jsonl") == frozenset()
    (tmp_path / "marks.jsonl").write_text('{"query_id": "q1", "verdict": "so-so"}\n')
    with pytest.raises(ValueError, match="needs 'query_id' and 'verdict'"):
        bad_ids(params.marks)
