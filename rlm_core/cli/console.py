"""The console of all commands: what documents and models wrote is shown, never obeyed by the terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from rlm_core.printable import printable


class SafeConsole(Console):
    """As rich's own, but control characters inside texts become visible signs."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))
