"""How well `locate` finds the paragraphs of Evidence Inference set in columns whose lines a parser interleaves.

Held out: nothing was tuned on these texts or this layout. It is harder than most PDFs: every fourth line ends in a broken
word, a running head and a page number stand on each page, and no gutter or font tells columns apart.

    python -m benchmarks.alignment_layouts ../shared/eval/evidence_inference_dev.jsonl.gz [--papers 30]
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
import textwrap
from itertools import islice
from pathlib import Path

from benchmarks.alignment import MIN_CHARS, Row, measure

LINES = 55
"""Of a page."""
FOREIGN = 60
"""Paragraphs of other papers sought in each paper."""
LAYOUTS = ((1, 90), (2, 48), (3, 32))
"""Columns, and characters of a line."""


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--papers", type=int, default=30)
    args = parser.parse_args(argv)
    with gzip.open(args.file, "rt", encoding="utf-8") as lines:
        papers = {row["pmcid"]: paragraphs_of(row["text"]) for row in map(json.loads, islice(lines, args.papers))}
    print("| columns | letters misread | paragraphs | found | right extent | foreign | found falsely |")
    print("|---|" + "---|" * 6)
    for columns, width in LAYOUTS:
        for errors in (0.0, 0.05):
            rows = [measured(name, papers, columns, width, errors) for name in papers]
            held, found, exact, foreign, wrong = (
                sum(getattr(r, key) for r in rows) for key in ("held", "found", "exact", "foreign", "foreign_found")
            )
            shares = f"{100 * found / held:.1f} % | {100 * exact / held:.1f} %"
            print(f"| {columns} | {errors:.0%} | {held} | {shares} | {foreign} | {wrong} |")
    return 0


def measured(name: str, papers: dict[str, list[str]], columns: int, width: int, errors: float) -> Row:
    foreign = [p for other, paragraphs in papers.items() if other != name for p in paragraphs]
    random.Random(name).shuffle(foreign)
    return measure(name, papers[name], foreign[:FOREIGN], interleaved(papers[name], columns, width), errors=errors)


def paragraphs_of(text: str) -> list[str]:
    texts = (" ".join(p.split()) for p in re.split(r"\n\s*\n?", text))
    return [t for t in dict.fromkeys(texts) if len(t) >= MIN_CHARS and not re.match(r"(?:TITLE|ABSTRACT|BODY)\b", t)]


def interleaved(paragraphs: list[str], columns: int, width: int) -> str:
    """Pages of `columns` columns, read across: the first lines of all columns, then their second lines.

    >>> interleaved(["one two", "three four"], 2, 5).splitlines()[1:3]
    ['one', 'two']
    """
    lines = hyphenated([line for p in paragraphs for line in textwrap.wrap(p, width, break_long_words=False)])
    pages: list[str] = []
    for start in range(0, len(lines), LINES * columns):
        parts = [lines[start + k * LINES : start + (k + 1) * LINES] for k in range(columns)]
        across = [" ".join(part[n] for part in parts if n < len(part)) for n in range(len(parts[0]))]
        pages.append("\n".join(["A Journal of Trials 2004, 4:12", *across, f"Page {len(pages) + 1}"]))
    return "\n\n".join(pages)


def hyphenated(lines: list[str]) -> list[str]:
    """Every fourth line takes the first four letters of a long word that begins the next."""
    made = list(lines)
    for number in range(0, len(made) - 1, 4):
        word, _, rest = made[number + 1].partition(" ")
        if len(word) > 8 and word.isalpha() and rest:
            made[number] += f" {word[:4]}-"
            made[number + 1] = f"{word[4:]} {rest}"
    return made


if __name__ == "__main__":
    raise SystemExit(main())
