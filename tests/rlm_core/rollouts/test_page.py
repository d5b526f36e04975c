"""The page of a tree: all of it is there, nothing in it is markup but the page's own."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rlm_core.records import ErrorClass, Rollout, Status, Turn, Usage
from rlm_core.rollouts.page import tree_page

HOSTILE = "</pre></details><script>alert(1)</script><img src=x onerror=alert(2)>\" ' &amp; <!-- ]]>"
_VOID = {"meta", "img", "br", "input", "link"}


class Page(HTMLParser):
    """Tags, attributes and visible text; fails where tags do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def tree(text: str) -> Rollout:
    """A tree with `text` wherever a model, a document or an endpoint could put one."""
    turn = Turn(text=f"think {text}\n```python\n{text}\n```\n{text}", observation=text, error=ErrorClass.CODE, cue=text)
    child = Rollout(
        id=f"q.0.0{text}", parent_id="q.0", depth=1, parent_turn=0, question=text, status=Status.FAILED, failure=text
    )
    stray = Rollout(id="q.0.1", parent_id="q.0", depth=1, question="stray", turns=(Turn(text=text),), answer=text)
    return Rollout(
        id="q.0",
        query_id=text,
        question=text,
        opening=(("system", text), ("user", text)),
        turns=(turn, Turn(text=text)),
        children=(child, stray),
        answer=[text, text],
        policy=text,
        usage=Usage(prompt_tokens=70, completion_tokens=9, turns=3, children=2, wall_seconds=1.25),
        provenance={"calls": [{"turn": 0, "prompt": text, "text": text}, {"turn": 1, "prompt": text, "failure": text}]},
    )


def test_a_page_shows_the_whole_tree() -> None:
    page = Page(tree_page(tree("plain words")))
    for part in ("turn 1", "turn 2", "code error", "q.0.0plain words", "q.0.1", "model call", "the prompt", "failed"):
        assert part in page.text
    assert "3 turns, 2 children, 70+9 tokens, 1.2 s" in page.text
    assert page.tags.count("details") >= 8
    assert page.text.count("plain words") >= 20


ATTRIBUTES = {"lang", "charset", "name", "content", "http-equiv", "class", "open"}
"""All that a page uses: none loads or runs anything."""


def test_a_page_needs_nothing_but_itself() -> None:
    text = tree_page(tree("x"))
    page = Page(text)
    assert {"script", "link", "img", "iframe", "a"} & set(page.tags) == set()
    assert {name for name, _ in page.attributes} <= ATTRIBUTES
    assert "url(" not in text
    assert "@import" not in text
    contents = {value for name, value in page.attributes if name == "content"}
    assert "width=device-width, initial-scale=1" in contents
    assert any(value and value.startswith("default-src 'none'") for value in contents)
    assert "prefers-color-scheme: dark" in text


def test_hostile_text_is_shown_and_never_interpreted() -> None:
    safe, page = Page(tree_page(tree("x"))), Page(tree_page(tree(HOSTILE)))
    assert page.tags == safe.tags
    assert page.attributes == safe.attributes
    assert HOSTILE in page.text


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=30).map(lambda text: text.replace("`", "'").replace("~", "-")))
def test_no_text_adds_a_tag(text: str) -> None:
    page = Page(tree_page(tree(text)))
    assert {"script", "img", "iframe", "svg", "a"} & set(page.tags) == set()
    assert {name for name, _ in page.attributes} <= ATTRIBUTES


def test_lone_surrogates_and_long_texts_are_written() -> None:
    page = tree_page(tree("\ud800" + "y" * 300_000))
    page.encode()
    assert "more characters ...]" in page
    assert len(page) < 30 * 210_000


def test_any_json_answer_is_shown() -> None:
    answers: list[Any] = [None, 3, "text", [], {"a": [1, {"b": "<i>"}]}, [1, "two"]]
    for answer in answers:
        page = Page(tree_page(Rollout(id="q.0", answer=answer)))
        shown = answer if isinstance(answer, str) else json.dumps(answer, indent=1)
        assert ("none" if answer is None else shown) in page.text
        assert "i" not in page.tags
