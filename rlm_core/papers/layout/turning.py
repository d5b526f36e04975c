"""Pages whose text runs up, down or upside down: turned upright to be read, and boxes turned back to be shown."""

from __future__ import annotations

from typing import Literal

Turn = Literal[0, 90, 180, 270]
"""Degrees, clockwise, by which a page is turned to read its text."""
Box = tuple[float, float, float, float]
"""(x0, top, x1, bottom) in points from the top left."""


def turn_box(box: Box, turn: Turn, width: float, height: float) -> Box:
    """Where a box of a page of this size lies once the page is turned; 90 and 270 make the page `height` wide."""
    x0, top, x1, bottom = box
    if turn == 90:
        return height - bottom, x0, height - top, x1
    if turn == 270:
        return top, width - x1, bottom, width - x0
    if turn == 180:
        return width - x1, height - bottom, width - x0, height - top
    return box


def turn_back(box: Box, turn: Turn, width: float, height: float) -> Box:
    """The inverse of `turn_box`; `width` and `height` are of the page as it is shown."""
    if turn == 0:
        return box
    back: dict[Turn, Turn] = {90: 270, 270: 90, 180: 180}
    return turn_box(box, back[turn], *((width, height) if turn == 180 else (height, width)))
