"""Lines in reading order cut into paragraphs: by gaps, indentation, short last lines, font, and what begins a line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from rlm_core.papers.layout import patterns
from rlm_core.papers.layout.boxes import Line


@dataclass(frozen=True, slots=True)
class Measure:
    """What is usual in this paper."""

    size: float
    """Of body text."""
    pitch: float
    """From the top of a line to the next one's, in body text."""
    exact: bool
    """Sizes and weights come from a text layer; from OCR they are rough."""
    advance: float = 5.0
    """Width of a character in body text, which OCR gives much more truly than heights."""
    width: float = 0.0
    """Of a line that fills its column, in points; 0.0 where no line does."""

    @property
    def em(self) -> float:
        """The body's font size; heights of OCR boxes shake too much, distances of lines do not."""
        return self.size if self.exact else self.pitch / 1.22

    @property
    def first_indent(self) -> float:
        """In em: the least indentation that begins a paragraph."""
        return 0.7 if self.exact else 0.55

    def indent(self, line: Line) -> float:
        """In em, from the column's left edge."""
        return (line.x0 - line.left) / self.em

    def relative_size(self, lines: Sequence[Line]) -> float:
        """Print size against the body's: 1.0 is body text, or a text too short for OCR to tell."""
        if self.exact:
            return median(line.size for line in lines) / self.size
        told = [line for line in lines if len(line.text) >= 12 and not line.wide_gaps]
        return median((line.x1 - line.x0) / len(line.text) for line in told) / self.advance if told else 1.0

    def same_print(self, a: Line, b: Line) -> bool:
        """Whether two long lines are set alike, by the width of their characters."""
        if self.exact or min(len(a.text), len(b.text)) < 20:
            return True
        first, second = ((line.x1 - line.x0) / len(line.text) for line in (a, b))
        return abs(first - second) < 0.27 * max(first, second)

    def same_size(self, a: float, b: float) -> bool:
        return abs(a - b) <= (0.07 if self.exact else 0.35) * max(a, b)


@dataclass(slots=True)
class Block:
    """A paragraph in the making."""

    lines: list[Line]
    kind: str = "body"
    heading: bool = False
    text: str = ""
    more: list[Block] = field(default_factory=list)
    """Parts of the same paragraph in later columns or pages."""

    @property
    def first(self) -> Line:
        return self.lines[0]

    @property
    def last(self) -> Line:
        return self.more[-1].last if self.more else self.lines[-1]

    @property
    def size(self) -> float:
        return median(line.size for line in self.lines)


def measure(lines: Sequence[Line], *, exact: bool) -> Measure:
    """Body size: the one most letters have. Pitch: median distance of lines of that size in one column."""
    sizes: Counter[float] = Counter()
    # The end of a paper is references and tables, often in smaller print.
    for line in lines[: max(40, int(0.7 * len(lines)))]:
        sizes[round(line.size * 2) / 2] += len(line.text) if line.slack < 0.1 and not line.wide_gaps else 0
    size = sizes.most_common(1)[0][0] if sizes.total() else 10.0
    steps = [
        b.middle - a.middle
        for a, b in pairwise(lines)
        if a.column == b.column and abs(a.size - size) < 0.3 * size and 0.7 * size < b.middle - a.middle < 2.6 * size
    ]
    full = [line for line in lines if line.slack < 0.05 and len(line.text) > 25]
    advance = median((line.x1 - line.x0) / len(line.text) for line in full) if full else 0.5 * size
    width = median(line.x1 - line.x0 for line in full) if full else 0.0
    return Measure(size, _usual_step(steps) if steps else 1.2 * size, exact, advance, width)


def _usual_step(steps: Sequence[float]) -> float:
    """Somewhat under the median, for where paragraphs are short every third step is the gap between two."""
    return sorted(steps)[int(0.4 * (len(steps) - 1))]


def to_blocks(lines: Sequence[Line], usual: Measure) -> list[Block]:
    """Cut the lines of all columns into blocks; nothing is joined across columns yet."""
    pitches = _pitches(lines, usual)
    headings = find_headings(lines, usual)
    blocks: list[Block] = []
    for line, heading in zip(lines, headings, strict=True):
        if line.text.strip():
            current = blocks[-1] if blocks else None
            if current is None or _breaks(current, line, usual, pitches, heading):
                blocks.append(Block([line], heading=heading))
            else:
                current.lines.append(line)
    return blocks


def find_headings(lines: Sequence[Line], usual: Measure) -> list[bool]:
    """Which lines are headings: they look like one, and what follows them is set differently or apart."""
    flags = [looks_like_heading(line, usual) for line in lines]
    for number in range(len(lines) - 2, -1, -1):
        line, following = lines[number], lines[number + 1]
        if not flags[number] or flags[number + 1] or patterns.is_section_name(line.text):
            continue
        close = line.column == following.column and following.middle - line.middle < 1.35 * max(
            usual.pitch, 1.2 * line.size
        )
        alike = usual.same_size(line.size, following.size) and line.styled == following.styled
        numbered = bool(patterns.NUMBERED.match(line.text)) and line.slack > (0.2 if usual.exact else 0.1)
        flags[number] = not (close and alike) or numbered
    for start, end in _runs(flags):
        # More than five lines in a row are a passage in another print, not a heading.
        if end - start > 5 and lines[end - 1].column == lines[start].column:
            flags[start:end] = [False] * (end - start)
    return flags


def _runs(flags: Sequence[bool]) -> list[tuple[int, int]]:
    """Half-open ranges of consecutive true flags."""
    edges = [n for n, (a, b) in enumerate(pairwise([False, *flags, False])) if a != b]
    return list(zip(edges[::2], edges[1::2], strict=True))


def _pitches(lines: Sequence[Line], usual: Measure) -> dict[int, float]:
    """Each column's own pitch, where it has enough lines to tell."""
    steps: dict[int, list[float]] = {}
    for a, b in pairwise(lines):
        if a.column == b.column and 0.7 * a.size < b.middle - a.middle < 2.2 * a.size:
            steps.setdefault(a.column, []).append(b.middle - a.middle)
    return {column: _usual_step(values) for column, values in steps.items() if len(values) >= 8}


def _breaks(block: Block, line: Line, usual: Measure, pitches: dict[int, float], heading: bool) -> bool:
    """Whether `line` begins a new block after `block`."""
    last, first = block.lines[-1], block.first
    if line.column != last.column:
        return True
    step = line.middle - last.middle
    pitch = pitches.get(line.column, usual.pitch) * (max(1.0, last.size / usual.size) if usual.exact else 1.0)
    if block.heading:
        # A heading may take two lines, in one font and close together.
        tight = step < 1.35 * max(pitch, 1.25 * last.size)
        same = (
            usual.exact and usual.same_size(last.size, line.size) and last.styled == line.styled and last.slack < 0.35
        )
        return not (tight and same and heading and not patterns.NUMBERED.match(line.text) and len(block.lines) < 4)
    if step > 1.4 * pitch or step < -0.5 * pitch or heading:
        return True
    smaller = not usual.same_size(last.size, line.size)
    if (smaller and not _runs_on(last, line, step / pitch)) or not usual.same_print(last, line):
        return True
    caption = patterns.CAPTION.match(line.text)
    if caption and not patterns.CAPTION.match(first.text):
        ended = bool(patterns.FULL_STOP.search(last.text))
        # A short or gappy line before it is a figure's own print: labels of its parts or axes.
        labels = bool(last.wide_gaps) or len(last.text) < 25
        if ended or (caption["stop"] in ".:|" and (labels or last.slack > 0.15)):
            return True
    return _indented(block, line, usual) or _after_short_line(last, line)


def _runs_on(last: Line, line: Line, pitches: float) -> bool:
    """A line of code words, set a little smaller, in the middle of a sentence; not the first line of a footnote."""
    alike = min(last.size, line.size) > 0.75 * max(last.size, line.size)
    unfinished = last.slack < 0.1 and not patterns.SENTENCE_END.search(last.text)
    return alike and unfinished and pitches < 1.15 and not patterns.FOOTNOTE.match(line.text)


def _indented(block: Block, line: Line, usual: Measure) -> bool:
    """A first-line indent, or the next item of a list or of hanging references."""
    last, first = block.lines[-1], block.first
    if patterns.BULLET.match(line.text):
        listed = patterns.BULLET.match(first.text) or line.text[0] in "•●▪"
        if listed or patterns.SENTENCE_END.search(last.text):
            return True
    indent, before, start = usual.indent(line), usual.indent(last), usual.indent(first)
    step = usual.first_indent
    hanging = len(block.lines) > 1 and usual.indent(block.lines[1]) - start > step
    if hanging or patterns.BULLET.match(first.text) or patterns.REFERENCE_MARK.match(first.text):
        return indent < start + 0.4 and before > start + step
    return step < indent < 4.5 and before < indent - 0.85 * step and _ends(last) and not line.text[:1].islower()


def _ends(line: Line) -> bool:
    return bool(patterns.SENTENCE_END.search(line.text)) or line.slack > 0.15


def _after_short_line(last: Line, line: Line) -> bool:
    if last.slack < 0.1 or line.text[:1].islower():
        return False
    return bool(patterns.FULL_STOP.search(last.text)) or (
        last.text.endswith(":") and bool(patterns.BULLET.match(line.text))
    )


def looks_like_heading(line: Line, usual: Measure) -> bool:
    """A short line that is a known section name, is numbered, or stands out by size or weight."""
    text = line.text.strip()
    if patterns.CAPTION.match(text) or line.wide_gaps or patterns.letters_share(text) < 0.6:
        return False
    if patterns.is_section_name(text):
        return text[0].isupper() or bool(patterns.NUMBERED.match(text))
    if len(text) > 110 or len(text) < 4 or text[-1] in ",;" or line.text[:1].islower():
        return False
    closed = text.endswith(".") and len(text) > 50
    numbered = bool(patterns.NUMBERED.match(text)) and (line.slack > 0.1 or usual.exact) and not closed
    if usual.exact:
        stands_out = line.size > 1.07 * usual.size or (line.styled and line.size > 0.97 * usual.size)
        return not closed and (stands_out or (numbered and len(text) < 70 and line.slack > 0.2))
    capitals = text.isupper() and len(text) > 5 and line.slack > 0.1
    return (
        capitals
        or (numbered and len(text) < 80)
        or (usual.relative_size([line]) > 1.25 and line.slack > 0.1 and len(text) < 70)
    )
