"""How well `locate` finds OCR paragraphs, the gold evidence of the pipeline, in the parser's text of the same papers.

Gold: the paragraphs of data/ocr that may be evidence, with all that OCR misread in them. Text: data/parsed. Truth about
the right extent comes from neither: the passage as the publisher's source words it (JATS, MyST), found there by
rapidfuzz; papers without such a source are held against the PDF's own stream order (pypdfium2), and are listed apart:
the rules were tuned on the publishers' paragraphs of the others, never on these.

held      75 % of the true passage's runs of 8 letters stand somewhere in the text
faithful  of these, OCR's paragraph reads as the true passage itself: not run together with a table's or a figure's text
found     of those held, a span scores enough
exact     of the faithful, the span's pieces read as the true passage, from its first letters to its last
left      the found pieces are taken out of the text, and the passage is still found with the score that the stage
          accepts: paragraphs that a paper repeats, by nature
foreign   paragraphs of all other papers;  those found are false

    python -m benchmarks.alignment_ocr ../shared/corpus data/ocr data/parsed [--json FILE] [--misses]
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
import xml.etree.ElementTree as ET
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from rapidfuzz import fuzz
from rapidfuzz.distance import Indel, Levenshtein

from benchmarks.alignment import held_share, letters, place_in
from rlm_core.papers import Paper, load_library
from rlm_core.params import QueriesParams
from rlm_core.synthesis import TextIndex
from rlm_core.synthesis.passages import Passage, passages_of
from rlm_core.synthesis.streams import GramIndex, Stream

KNOWN = 85.0
"""Similarity, of 100, of a passage to its likeliest place in the reference; under it the passage has no truth."""
MARGIN = 60
ACCEPTED = QueriesParams().min_score
FIRM = 8
"""Letters in a row that tell where the passage's ends lie in the reference."""


@dataclass
class Row:
    paper: str
    source: str
    passages: int = 0
    known: int = 0
    held: int = 0
    faithful: int = 0
    found: int = 0
    exact: int = 0
    left: int = 0
    foreign: int = 0
    foreign_found: int = 0


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("ocr", type=Path)
    parser.add_argument("parsed", type=Path)
    parser.add_argument("--json", type=Path, help="write the rows here")
    parser.add_argument("--misses", action="store_true", help="print faithful passages that are not found exactly")
    parser.add_argument("--every", type=int, default=1, help="look at every n-th foreign paragraph")
    args = parser.parse_args(argv)
    ocr, parsed = load_library(args.ocr), load_library(args.parsed)
    names = sorted(ocr.keys() & parsed.keys())
    if not names:
        print(f"no paper is in both {args.ocr} and {args.parsed}", file=sys.stderr)
        return 2
    gold = {name: [p for p in passages_of(ocr[name]) if p.can_be_evidence] for name in names}
    rows = []
    for name in names:
        source, reference = reference_of(args.corpus, name)
        foreign = [p for other in names if other != name for p in gold[other]][:: args.every]
        rows.append(measure(name, source, gold[name], foreign, parsed[name].text, reference, show=args.misses))
    print_table(rows)
    seconds = hundred_pages(list(parsed.values()), gold)
    print(
        f"a 100-page paper: {seconds['index'] * 1000:.0f} ms to index, {seconds['look_up'] * 1000:.2f} ms a passage (CPU time)"
    )
    if args.json:
        args.json.write_text(json.dumps({"rows": [asdict(r) for r in rows], "hundred_pages": seconds}, indent=1) + "\n")
    return 0


def measure(
    name: str, source: str, gold: list[Passage], foreign: list[Passage], text: str, reference: str, *, show: bool
) -> Row:
    index, grams = TextIndex(text), GramIndex(Stream.of(text).codes, 8)
    clean = letters(reference)
    row = Row(name, source, passages=len(gold))
    for passage in gold:
        truth = true_letters(passage.text, clean)
        row.known += bool(truth)
        if not truth or held_share(truth, grams) < 0.75:
            continue
        row.held += 1
        spans = index.locate(passage.text)
        row.found += bool(spans)
        pieces = [text[a:b] for a, b in spans[0].pieces] if spans else []
        faithful = same(truth, letters(passage.text))
        row.faithful += faithful
        good = faithful and reads_as(truth, pieces)
        row.exact += good
        left = TextIndex(without(text, spans[0].pieces)).locate(passage.text, min_score=ACCEPTED) if spans else []
        row.left += bool(left)
        if show and faithful and not good:
            print(f"--- {name} {spans[:1]}\nOCR   {passage.text}\ntrue  {truth}\nfound {pieces}")
        if show and left:
            print(f"--- {name} LEFT {left[0].score:.2f} {passage.text[:200]}")
    for other in foreign:
        row.foreign += 1
        if index.locate(other.text):
            row.foreign_found += 1
            if show:
                print(f"--- {name} FOREIGN {other.paper_id} {other.text[:200]}")
    return row


def true_letters(passage: str, clean: str) -> str:
    """The passage's letters as the reference has them; empty where it does not hold the passage.

    The likeliest window is as long as the passage; its ends are then set where the passage's own first and last letters are.
    """
    own = letters(passage)
    place = fuzz.partial_ratio_alignment(own, clean, score_cutoff=KNOWN) if len(own) < len(clean) else None
    if place is None:
        return ""
    low, high = max(0, place.dest_start - MARGIN), place.dest_end + MARGIN
    runs = [op for op in Levenshtein.opcodes(own, clean[low:high]) if op.tag == "equal"]
    runs = [op for op in runs if op.src_end - op.src_start >= FIRM] or runs
    start = max(0, runs[0].dest_start - runs[0].src_start)
    end = runs[-1].dest_end + len(own) - runs[-1].src_end
    return clean[low + start : low + end]


def reads_as(want: str, pieces: list[str]) -> bool:
    """The pieces, in text order or put where they fit best, read as `want` from its first to its last letters."""
    own = [letters(p) for p in pieces]
    return any(same(want, "".join(order)) for order in (own, sorted(own, key=lambda piece: place_in(want, piece))))


def same(want: str, got: str) -> bool:
    ends = [Indel.normalized_similarity(a, b) >= 0.7 for a, b in ((got[:15], want[:15]), (got[-15:], want[-15:]))]
    return all(ends) and Indel.normalized_similarity(got, want) >= 0.85


def without(text: str, pieces: tuple[tuple[int, int], ...]) -> str:
    for start, end in sorted(pieces, reverse=True):
        text = text[:start] + "\n" + text[end:]
    return text


def reference_of(corpus: Path, name: str) -> tuple[str, str]:
    """The publisher's text of a paper, or else its text in stream order."""
    pdf = next(corpus.glob(f"*/{name}.pdf"))
    if (jats := pdf.with_suffix(".jats.xml")).exists():
        root = ET.fromstring(jats.read_text(encoding="utf-8"))
        return "JATS", "\n".join(" ".join("".join(node.itertext()).split()) for node in root.iter("body"))
    if (myst := pdf.with_suffix(".myst.md")).exists():
        return "MyST", re.sub(r"\{[\w:-]+\}`[^`]*`|\[-?@[^\]]*\]|@[\w:-]+|\]\([^)]*\)", "", myst.read_text("utf-8"))
    import pypdfium2

    document = pypdfium2.PdfDocument(pdf)
    try:
        return "stream", "\n".join(page.get_textpage().get_text_bounded() for page in document)
    finally:
        document.close()


def hundred_pages(papers: list[Paper], gold: dict[str, list[Passage]]) -> dict[str, float]:
    """CPU seconds to index 100 real pages, and to look one passage up in them."""
    pages = [page for paper in papers for page in paper.pages][:100]
    inside = [p for paper in papers for p in gold.get(paper.id, [])][:200]
    start = time.process_time()
    index = TextIndex("\n\n".join(pages))
    indexed = time.process_time()
    for passage in inside:
        index.locate(passage.text)
    seconds = (time.process_time() - indexed) / max(1, len(inside))
    return {"pages": len(pages), "index": indexed - start, "look_up": seconds}


def total(name: str, rows: list[Row]) -> Row:
    return Row(name, "", *(sum(getattr(r, f.name) for r in rows) for f in fields(Row)[2:]))


def print_table(rows: list[Row]) -> None:
    columns = [f.name.replace("_", " ") for f in fields(Row)]
    print("| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
    tuned, unseen = ([r for r in rows if (r.source != "stream") == seen] for seen in (True, False))
    for r in [*rows, total("all, publisher's text", tuned), total("all, stream order", unseen)]:
        cells = {f.name: str(getattr(r, f.name)) for f in fields(Row)}
        for key, of in (("found", "held"), ("exact", "faithful")):
            cells[key] += f" ({100 * getattr(r, key) / max(getattr(r, of), 1):.1f} %)"
        print("| " + " | ".join(cells.values()) + " |")


if __name__ == "__main__":
    raise SystemExit(main())
