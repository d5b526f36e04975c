"""Words of a page as pieces: sizes are of most letters, and styled is what differs from the page's print."""

from __future__ import annotations

import pytest

from rlm_core.papers.textlayer import _piece, _styled


def word(text: str, x0: float, size: float, font: str = "ABCDEF+Times-Roman") -> dict[str, object]:
    """A word 5 points wide a letter, on a line of 10 points."""
    chars = [{"size": size, "fontname": font} for _ in text]
    return {
        "text": text,
        "x0": x0,
        "x1": x0 + 5 * len(text),
        "top": 100.0,
        "bottom": 110.0,
        "size": size,
        "chars": chars,
    }


def test_code_at_a_lines_start_does_not_give_the_line_its_size():
    """16 letters of code in 8 points, then 20 of text in 10: more than half of the letters are text."""
    line = [
        word("capability:pred_", 50, 8),
        word("is", 135, 10),
        word("the", 150, 10),
        word("tag of forecaster", 170, 10),
    ]
    piece = _piece(line, "ABCDEF+Times-Roman")
    assert (piece.size, piece.text) == (10, "capability:pred_ is the tag of forecaster")
    assert (piece.x0, piece.x1) == (50, 255)


@pytest.mark.parametrize(
    ("font", "styled"),
    [
        ("ABCDEF+Times-Bold", True),
        ("ABCDEF+MinionPro-It", True),
        ("ABCDEF+Times-Roman", False),
        ("IIGJAF+TT2474o00", True),  # another font than the page's, and its name says nothing
        ("IIGIMA+TT246Do00", False),  # the page's own
        ("ABCDEF+Courier", False),  # another, but its name says that it is upright
    ],
)
def test_styled_fonts(font, styled):
    assert _styled(font, "IIGIMA+TT246Do00") is styled
