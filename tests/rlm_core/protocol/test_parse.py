"""Fences, text answers, and properties of the parser."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from rlm_core.protocol import Final, parse_turn
from rlm_core.protocol.fences import fences
from rlm_core.protocol.finals import closing_parenthesis


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("```python\nx = 1\n```", ["x = 1"]),
        ("say\n```repl\nx = 1\n```\nthen\n```\ny\n```\n", ["x = 1", "y"]),
        ("~~~py\nx\n~~~", ["x"]),
        ("```python\r\nx = 1\r\ny = 2\r\n```\r\n", ["x = 1\ny = 2"]),
        ("````python\ns = '''\n```\ninner\n```\n'''\n````", ["s = '''\n```\ninner\n```\n'''"]),
        ("```python\nx\n~~~\ny\n```", ["x\n~~~\ny"]),
        ("```python\nx\n`````", ["x"]),
        ("   ```python\n   if x:\n       y\n   ```", ["if x:\n    y"]),
        ("```python\nx = 1\n", ["x = 1"]),
        ("```Python title=a\nx\n```", ["x"]),
        ("``` {.python}\nx\n```", ["x"]),
        ("```python3\nx\n```", ["x"]),
        (
            "use ```python\nx\n``` inline",
            [],
        ),  # the opening does not start a line, the last line opens a bash-less block
        ("    ```python\n    x\n    ```", []),  # four spaces: an indented block, not a fence
        ("```python print('`')```\n", []),  # a backtick in the info string: inline code
        ("```python\nx\n``` not closing\ny\n```", ["x\n``` not closing\ny"]),
        ("", []),
    ],
)
def test_code_blocks(text: str, expected: list[str]) -> None:
    assert parse_turn(text).code_blocks == expected


def test_other_languages_are_an_error_for_the_model_and_do_not_run() -> None:
    turn = parse_turn("```bash\nls\n```\n```python\nx\n```")
    assert turn.code_blocks == ["x"]
    assert turn.errors == ["a block marked 'bash' was not run: mark code to run with ```python"]


def test_an_unclosed_last_block_runs_and_is_said_to_be_unclosed() -> None:
    assert parse_turn("```python\nx = 1\nFINAL(x)").unclosed
    assert not parse_turn("```python\nx\n```").unclosed


def test_reasoning_is_neither_code_nor_answer() -> None:
    turn = parse_turn("<think>\n```python\nbad\n```\nFINAL(no)\n</think>\n```python\ngood\n```")
    assert turn.code_blocks == ["good"]
    assert parse_turn("maybe FINAL?\nFINAL(no)\n</think>\nFINAL(yes)").final == Final("value", "yes")
    assert parse_turn("<think>\nFINAL(cut off").final is None


def test_text_inside_code_keeps_its_think_tags() -> None:
    assert parse_turn("```python\ns = '</think>'\n```").code_blocks == ["s = '</think>'"]


@pytest.mark.parametrize(
    ("text", "final"),
    [
        ("FINAL(42)", Final("value", "42")),
        ("So:\n  FINAL( the answer )\n", Final("value", "the answer")),
        ("FINAL(f(x) and (y))", Final("value", "f(x) and (y)")),
        ('FINAL("a ) in a string")', Final("value", "a ) in a string", quoted=True)),
        ("FINAL(the paper's result (n = 5))", Final("value", "the paper's result (n = 5)")),
        ('FINAL(["a)", "b"])', Final("value", '["a)", "b"]')),
        ("FINAL(two\nlines)", Final("value", "two\nlines")),
        ("FINAL_VAR(hits)", Final("var", "hits")),
        ("FINAL_VAR('hits')", Final("var", "hits")),
        ("FINAL_VAR(`hits`).", Final("var", "hits")),
        ("I would say FINAL(x) later", None),
        ("FINAL", None),
        ("FINAL(open", None),
        ("FINAL_VAR()", None),
        ("FINALLY(x)", None),
        ("```text\nFINAL(x)\n```", None),
        ("```python\nx\n```\nFINAL(x)", None),
        ("FINAL(x)\n```python\ny\n```", None),
    ],
)
def test_text_answers(text: str, final: Final | None) -> None:
    assert parse_turn(text).final == final


def test_the_first_of_several_answers_counts() -> None:
    turn = parse_turn("FINAL(a)\nUser: go on\nFINAL(b)")
    assert turn.final == Final("value", "a")
    assert turn.errors == ["more than one answer; the first counts"]


def test_an_unbalanced_answer_is_an_error() -> None:
    assert parse_turn("FINAL(a").errors == ["FINAL( has no closing parenthesis"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("FINAL(42)", "42"),
        ("FINAL(True)", "True"),
        ("FINAL({'a': 1})", "{'a': 1}"),
        ("FINAL((1, 2))", "(1, 2)"),
        ("FINAL(['a', 'b'])", ["a", "b"]),
        ('FINAL(["a", null])', ["a", None]),
        ("FINAL([1] and [2])", "[1] and [2]"),
        ("FINAL([see table 2])", "[see table 2]"),
        ("FINAL([b'x'])", "[b'x']"),
        ("FINAL('[1, 2]')", "[1, 2]"),
        ("FINAL('it''s')", "its"),
        ("FINAL('a' or 'b')", "'a' or 'b'"),
    ],
)
def test_only_lists_and_quoted_texts_change_type(text: str, value: object) -> None:
    final = parse_turn(text).final
    assert final is not None
    assert final.value == value
    assert type(final.value) is type(value)


lines = st.one_of(
    st.sampled_from(
        ["```", "````", "~~~", "~~~~", "```python", "~~~ py", " ```", "   ```", "    ```", "``` x", "```a`b"]
    ),
    st.sampled_from(["x = 1", "  indented", "", "FINAL(a)", "text ``` text", "`````"]),
    st.text("ab`~ ", max_size=8),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(lines, max_size=12), st.sampled_from(["\n", "\r\n"]))
def test_fences_agree_with_a_commonmark_parser(parts: list[str], ending: str) -> None:
    """markdown-it with every other block rule switched off is the oracle."""
    text = ending.join(parts)
    oracle = MarkdownIt("zero").enable(["fence", "code"])
    expected = [token.content for token in oracle.parse(text) if token.type == "fence"]
    found = [f.body for f in fences(text)]
    assert [f.rstrip() for f in found] == [e.rstrip() for e in expected]  # the oracle drops a blank tail


@settings(max_examples=300, deadline=None)
@given(st.text("`~FINAL_VR(\n\r)'\"[], xpython#<>think/", max_size=200))
def test_any_text_parses_and_nothing_is_invented(text: str) -> None:
    turn = parse_turn(text)
    squeezed = text.replace("\r\n", "\n").replace("\r", "\n")
    assert all(line.strip() in squeezed for block in turn.code_blocks for line in block.split("\n"))
    assert turn.final is None or not turn.code_blocks
    for one, two in zip(fences(text), fences(text)[1:], strict=False):
        assert one.end <= two.start


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=200), st.integers(3, 6))
def test_any_code_survives_a_long_enough_fence(code: str, width: int) -> None:
    runs = [len(run) for run in "".join(c if c == "`" else " " for c in code).split()]
    fence = "`" * max([width, *(n + 1 for n in runs)])
    found = fences(f"before\n{fence}python\n{code}\n{fence}\nafter")
    assert [f.body for f in found] == [code + "\n"]


@settings(max_examples=200, deadline=None)
@given(st.text("ab (),'", max_size=40))
def test_balanced_plain_text_is_an_answer(inner: str) -> None:
    opening = f"FINAL({inner})"
    close = closing_parenthesis(opening, 5)
    final = parse_turn(opening).final
    assert (final is not None) == (close >= 0)
    if "'" not in inner:
        depth = 0
        balanced = True
        for letter in inner:
            depth += (letter == "(") - (letter == ")")
            balanced &= depth >= 0
        assert (close == len(opening) - 1) == (balanced and depth == 0)


def test_huge_malformed_text_is_no_answer() -> None:
    for text in ("FINAL(\n" * 20_000, "FINAL((('''" * 10_000, "```\n" * 50_001, "</think>" * 20_000, "(" * 200_000):
        turn = parse_turn(text)
        assert (turn.final, turn.code_blocks) == (None, []), text[:20]
