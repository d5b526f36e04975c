"""How well `locate` finds publishers' paragraphs in the parser's text of real papers.

Truth: the paragraphs of a paper's JATS or MyST source. Text: pdfplumber's default text of its PDF, all pages joined.
A paragraph counts as held when 75 % of its runs of 8 letters stand somewhere in the text (letters and digits only);
it counts as found when a span scores enough, and as exact when the span's pieces read as the paragraph does, from its
first letters to its last. Paragraphs of other papers must not be found.

    python benchmarks/alignment.py ../shared/corpus [--cache FOLDER] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import time
import xml.etree.ElementTree as ET
from dataclasses import asdict, dataclass
from pathlib import Path

from rapidfuzz import fuzz
from rapidfuzz.distance import Indel

from rlm_core.synthesis import TextIndex
from rlm_core.synthesis.streams import GramIndex, Stream

MIN_CHARS = 120


@dataclass
class Row:
    paper: str
    chars: int
    paragraphs: int
    held: int
    found: int
    exact: int
    foreign: int
    foreign_found: int
    index_ms: float
    lookup_ms: float


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--cache", type=Path, help="folder for the parser's texts, made when absent")
    parser.add_argument("--json", type=Path, help="write the rows here")
    parser.add_argument("--misses", action="store_true", help="print held paragraphs that are not found exactly")
    parser.add_argument("--errors", type=float, default=0.0, help="share of gold letters misread, as OCR does")
    args = parser.parse_args(argv)
    truth = {path: paragraphs_of(path) for path in sorted(args.corpus.glob("*/*"))}
    papers = {path.name.split(".jats")[0].split(".myst")[0]: (path, gold) for path, gold in truth.items() if gold}
    if not papers:
        print(f"{args.corpus}: no *.jats.xml or *.myst.md beside PDFs", file=sys.stderr)
        return 2
    texts = {name: noisy_text(path.parent / f"{name}.pdf", args.cache) for name, (path, _) in papers.items()}
    rows = []
    for name, (_, gold) in papers.items():
        foreign = [p for other, (_, paragraphs) in papers.items() if other != name for p in paragraphs]
        rows.append(measure(name, gold, foreign, texts[name], errors=args.errors, show=args.misses))
    print_table(rows)
    if args.json:
        args.json.write_text(json.dumps([asdict(r) for r in rows], indent=1) + "\n")
    return 0


def measure(
    name: str, gold: list[str], foreign: list[str], text: str, *, errors: float = 0.0, show: bool = False
) -> Row:
    start = time.perf_counter()
    index = TextIndex(text)
    index_ms = 1000 * (time.perf_counter() - start)
    grams = GramIndex(Stream.of(text).codes, 8)
    held = [p for p in gold if held_share(p, grams) >= 0.75]
    start = time.perf_counter()
    rng = random.Random(name)
    spans = [index.locate(misread(p, errors, rng)) for p in held]
    lookup_ms = 1000 * (time.perf_counter() - start) / max(len(held), 1)
    found = exact = 0
    for paragraph, places in zip(held, spans, strict=True):
        found += bool(places)
        good = bool(places) and reads_as(paragraph, [text[a:b] for a, b in places[0].pieces])
        exact += good
        if show and not good:
            print(
                f"--- {name} {places[:1]}\n{paragraph}\n=>", [text[a:b] for a, b in places[0].pieces] if places else ""
            )
    own = {letters(p) for p in gold}
    others = [p for p in foreign if letters(p) not in own]
    wrong = [p for p in others if index.locate(p)]
    if show:
        for paragraph in wrong:
            print(f"--- {name}: FOREIGN {paragraph}")
    return Row(name, len(text), len(gold), len(held), found, exact, len(others), len(wrong), index_ms, lookup_ms)


def misread(text: str, errors: float, rng: random.Random) -> str:
    """A share of the letters replaced, dropped or doubled, one kind as often as another."""
    out = []
    for char in text:
        if char.isalnum() and rng.random() < errors:
            out.append(rng.choice([rng.choice("abcdefghijklmnopqrstuvwxyz"), "", char * 2]))
        else:
            out.append(char)
    return "".join(out)


def held_share(paragraph: str, grams: GramIndex) -> float:
    stream = Stream.of(paragraph)
    runs = grams.common_runs(stream.codes, max_places=10**9)
    covered = [False] * len(stream)
    for start, _, length in runs.tolist():
        covered[start : start + length] = [True] * length
    return sum(covered) / max(len(stream), 1)


def reads_as(paragraph: str, pieces: list[str]) -> bool:
    """The pieces, put where they fit best, read as the paragraph from its first to its last letters."""
    want = letters(paragraph)
    got = "".join(sorted((letters(p) for p in pieces), key=lambda piece: place_in(want, piece)))
    ends = Indel.normalized_similarity(got[:15], want[:15]) >= 0.7 and (
        Indel.normalized_similarity(got[-15:], want[-15:]) >= 0.7
    )
    return ends and Indel.normalized_similarity(got, want) >= 0.85


def place_in(want: str, piece: str) -> int:
    if len(piece) >= len(want):
        return 0
    alignment = fuzz.partial_ratio_alignment(piece, want)
    return alignment.dest_start if alignment else 0


def letters(text: str) -> str:
    return Stream.of(text).letters


def paragraphs_of(path: Path) -> list[str]:
    """Prose paragraphs of a source file, without those made of formulas; empty for other kinds of files."""
    if path.name.endswith(".jats.xml"):
        return jats_paragraphs(path.read_text(encoding="utf-8"))
    if path.name.endswith(".myst.md"):
        return myst_paragraphs(path.read_text(encoding="utf-8"))
    return []


def jats_paragraphs(xml: str) -> list[str]:
    root = ET.fromstring(xml)
    body = root.find(".//body")
    texts = []
    for node in body.iter("p") if body is not None else ():
        tags = {child.tag.rsplit("}")[-1] for child in node.iter()}
        if tags & {"disp-formula", "inline-formula", "tex-math", "math", "list", "table-wrap", "fig", "preformat"}:
            continue
        texts.append(" ".join("".join(node.itertext()).split()))
    return [t for t in dict.fromkeys(texts) if len(t) >= MIN_CHARS]


def myst_paragraphs(source: str) -> list[str]:
    source = re.sub(r"\A---\n.*?\n---\n", "", source, flags=re.DOTALL)
    source = re.sub(r"^(`{3,}|:{3,}|\+{3,}).*?^\1\s*$", "", source, flags=re.DOTALL | re.MULTILINE)
    texts = []
    for block in re.split(r"\n\s*\n", source):
        if re.match(r"\s*(#|[-*+] |\d+\. |[|>(:]|!\[|\$\$|<)", block) or "$" in block:
            continue
        text = re.sub(r"\{[\w:-]+\}`[^`]*`|\[-?@[^\]]*\]|\[\^[^\]]*\]|@[\w:-]+", "", block)
        text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
        texts.append(" ".join(re.sub(r"[*_`]", "", text).split()))
    return [t for t in dict.fromkeys(texts) if len(t) >= MIN_CHARS]


def noisy_text(pdf: Path, cache: Path | None) -> str:
    cached = cache / f"{pdf.stem}.txt" if cache else None
    if cached and cached.exists():
        return cached.read_text(encoding="utf-8")
    import pdfplumber

    with pdfplumber.open(pdf) as document:
        pages = []
        for page in document.pages:
            pages.append(page.extract_text())
            page.close()
    text = "\n\n".join(pages)
    if cached:
        cached.parent.mkdir(parents=True, exist_ok=True)
        cached.write_text(text, encoding="utf-8")
    return text


def print_table(rows: list[Row]) -> None:
    print(
        "| paper | characters | paragraphs | held | found | exact extent | foreign | of them found | index ms | look-up ms |"
    )
    print("|---|" + "---|" * 9)
    total = Row("all", *(sum(getattr(r, f) for r in rows) for f in list(Row.__dataclass_fields__)[1:8]), 0.0, 0.0)
    total.index_ms = sum(r.index_ms for r in rows) / len(rows)
    total.lookup_ms = sum(r.lookup_ms * r.held for r in rows) / max(total.held, 1)
    for r in [*rows, total]:
        found, exact = (100 * n / max(r.held, 1) for n in (r.found, r.exact))
        print(
            f"| {r.paper} | {r.chars} | {r.paragraphs} | {r.held} | {r.found} ({found:.1f} %) | {r.exact} ({exact:.1f} %) "
            f"| {r.foreign} | {r.foreign_found} | {r.index_ms:.1f} | {r.lookup_ms:.2f} |"
        )


if __name__ == "__main__":
    raise SystemExit(main())
