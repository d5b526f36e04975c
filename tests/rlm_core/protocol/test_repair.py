"""Each repair by an example of what it mends and of what it must leave alone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlm_core.protocol import REPAIR_KINDS, parse_turn, repair_turn

KNOWN = ("ans", "hits")


@pytest.mark.parametrize(
    ("text", "mended", "kinds"),
    [
        ("FINAL(ans)", "FINAL_VAR(ans)", ["final_of_variable_name"]),
        ("FINAL('ans')", "FINAL_VAR(ans)", ["final_of_variable_name"]),
        ("FINAL_VAR(The answer is 4)", "FINAL(The answer is 4)", ["final_var_of_literal"]),
        ('FINAL_VAR(["a", "b"])', 'FINAL(["a", "b"])', ["final_var_of_literal"]),
        ("print(FINAL(a b))", "FINAL(a b)", ["final_in_print"]),
        ("`FINAL(a b)`", "FINAL(a b)", ["final_in_markup"]),
        ("**FINAL_VAR(ans)**", "FINAL_VAR(ans)", ["final_in_markup"]),
        ("So\nFINAL(it is (about) 4\n", "So\nFINAL(it is (about) 4)\n", ["unclosed_final"]),
        ("`print(FINAL(ans))`", "`print(FINAL(ans))`", []),
        ("```python\nFINAL('ans')\n```", "```python\nFINAL_VAR('ans')\n```", ["final_of_variable_name"]),
        (
            "```python\nFINAL_VAR('a whole answer')\n```",
            "```python\nFINAL('a whole answer')\n```",
            ["final_var_of_literal"],
        ),
        ("```python\nprint(FINAL(ans))\n```", "```python\nFINAL(ans)\n```", ["final_in_print"]),
        ("```python\nx = 'é'; FINAL(x\n```", None, []),
        ("```python\nx = 1\nFINAL(x\n```", "```python\nx = 1\nFINAL(x)\n```", ["unclosed_final"]),
        ("```\nFINAL(It is forty two.)\n```", "```\nFINAL('It is forty two.')\n```", ["prose_in_final_code"]),
        # several blocks: a name assigned in the first is known in the second
        (
            "```python\nbest = 1\n```\nand\n```python\nFINAL('best')\n```",
            "```python\nbest = 1\n```\nand\n```python\nFINAL_VAR('best')\n```",
            ["final_of_variable_name"],
        ),
    ],
)
def test_mends(text: str, mended: str | None, kinds: list[str]) -> None:
    repair = repair_turn(text, KNOWN)
    assert (repair.text, list(repair.kinds)) == (text if mended is None else mended, kinds)


@pytest.mark.parametrize(
    "text",
    [
        "FINAL(42)",
        "FINAL(answer)",  # no such variable: may be the answer
        "FINAL_VAR(missing)",  # may be a typing error: the REPL lists what there is
        "```python\nFINAL(ans)\n```",  # in code, FINAL of a variable is right
        "```python\nFINAL_VAR('missing')\n```",
        "```python\nFINAL_VAR('ans')\n```",
        "```python\nprint('FINAL(x)')\n```",
        "```python\ns = 'print(FINAL(ans))'\n```",
        "```python\nx = (\n```",
        "```text\nprint(FINAL(ans))\n```",
        "```python\nx = 1\n```\nFINAL(ans)",  # text after code does not count; nothing to mend
        "FINAL(one\n\nFINAL(two",
        "I call print(FINAL(x)) later",
        "<think>FINAL('ans')</think>",
    ],
)
def test_leaves_alone(text: str) -> None:
    assert repair_turn(text, KNOWN).kinds == ()
    assert repair_turn(text, KNOWN).text == text


def test_offsets_count_characters_not_bytes() -> None:
    text = "```python\nnote = 'é–中'; print(FINAL('ans'))\n```"
    assert repair_turn(text, KNOWN).text == "```python\nnote = 'é–中'; FINAL_VAR('ans')\n```"


def test_a_mended_turn_reads_as_meant() -> None:
    final = parse_turn(repair_turn("**FINAL_VAR('It was the butler.')**").text).final
    assert final is not None
    assert (final.kind, final.value) == ("value", "It was the butler.")


pieces = st.sampled_from(
    [
        "FINAL(",
        "FINAL_VAR(",
        ")",
        "print(",
        "`",
        "**",
        "'",
        '"',
        "ans",
        "two words",
        "\n",
        "```python\n",
        "\n```\n",
        " ",
        "[",
        "]",
    ]
)


@settings(max_examples=400, deadline=None)
@given(st.lists(pieces, max_size=14))
def test_mending_twice_changes_nothing_more(parts: list[str]) -> None:
    once = repair_turn("".join(parts), KNOWN)
    again = repair_turn(once.text, KNOWN)
    assert set(once.kinds) <= set(REPAIR_KINDS)
    assert (once.kinds != ()) or once.text == "".join(parts)
    assert again.text == once.text, (once, again)
