"""What a publisher's source says a paper holds: the truth that readings of its PDF are measured against.

JATS (XML of journals), MyST Markdown and LaTeX. Formulas and marks of citations are cut, for sources spell them otherwise
than the print does; a paragraph that lost one is not `complete`, and letters are compared in complete ones only.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml


@dataclass(frozen=True, slots=True)
class TrueParagraph:
    """One paragraph or list item of prose."""

    text: str
    complete: bool
    """Nothing of it was cut."""


@dataclass(frozen=True, slots=True)
class Truth:
    """A paper as its source spells it."""

    title: str
    abstract: str
    """Empty where the paper has none (journals whose papers open with a section "Summary")."""
    sections: tuple[str, ...]
    """Titles of all levels, without numbers that the print adds."""
    paragraphs: tuple[TrueParagraph, ...]
    """Of the body, in order; no captions, tables, notes or references."""
    text: str
    """All that the source holds: also captions, tables, code, authors and, in JATS, references."""


def read_truth(path: Path) -> Truth:
    """Read a source by the end of its name; raises ValueError for another kind of file."""
    source = path.read_text(encoding="utf-8")
    if path.name.endswith(".jats.xml"):
        return read_jats(source)
    if path.name.endswith(".md"):
        return read_myst(source)
    if path.name.endswith(".tex"):
        return read_latex(source)
    raise ValueError(f"{path}: neither .jats.xml nor .md nor .tex")


_FORMULAS = frozenset({"disp-formula", "inline-formula", "disp-formula-group", "tex-math", "math", "alternatives"})
_FLOATS = frozenset(
    {"fig", "fig-group", "table-wrap", "boxed-text", "preformat", "code", "fn", "supplementary-material"}
)


def read_jats(xml: str) -> Truth:
    root = ET.fromstring(xml)
    body = root.find("body")
    abstract = root.find(".//article-meta/abstract")
    titles = [*root.iterfind("./body//sec/title"), *root.iterfind("./back//title")]
    return Truth(
        title=_flat(root.find(".//article-meta/title-group/article-title")),
        abstract=" ".join(_cut(node)[0] for node in abstract.iter("p")) if abstract is not None else "",
        sections=tuple(title for node in titles if (title := _flat(node))),
        paragraphs=tuple(_jats_paragraphs(body)) if body is not None else (),
        text=" ".join(_flat(part) for part in (root.find(".//article-meta"), body, root.find("back"))),
    )


def _jats_paragraphs(node: ET.Element) -> Iterator[TrueParagraph]:
    for child in node:
        if child.tag == "p":
            text, cut = _cut(child)
            if text:
                yield TrueParagraph(text, not cut)
        if child.tag not in _FLOATS:
            yield from _jats_paragraphs(child)


def _cut(paragraph: ET.Element) -> tuple[str, bool]:
    """Its own text without floats, lists and formulas, and whether a formula was among them."""
    parts: list[str] = []
    cut = False

    def walk(node: ET.Element) -> None:
        nonlocal cut
        parts.append(node.text or "")
        for child in node:
            if child.tag.rsplit("}")[-1] in _FORMULAS:
                cut = True
            elif child.tag not in _FLOATS and child.tag not in ("list", "disp-quote", "def-list"):
                walk(child)
            parts.append(child.tail or "")

    walk(paragraph)
    return " ".join("".join(parts).split()), cut


def _flat(node: ET.Element | None) -> str:
    """All its text, elements parted by a space only where they stand as blocks of their own."""
    if node is None:
        return ""
    inline = {"italic", "bold", "sup", "sub", "xref", "ext-link", "monospace", "underline", "sc", "styled-content"}
    parts: list[str] = []

    def walk(child: ET.Element) -> None:
        if child.tag in ("tex-math", "object-id"):
            return
        space = "" if child.tag in inline else " "
        parts.append(space + (child.text or ""))
        for grandchild in child:
            walk(grandchild)
            parts.append(grandchild.tail or "")
        parts.append(space)

    walk(node)
    return " ".join("".join(parts).split())


_MYST_CUT = re.compile(r"\{[\w:-]+\}`[^`]*`|\[-?@[^\]]*\]|\[\^[^\]]*\]|(?<![\w.])@[\w:./-]+|\$[^$]+\$|<[^>]*>")
_FENCED = re.compile(
    r"^(?P<fence>`{3,}|:{3,}|\+{3,})[^\n]*\n(?P<inside>.*?)^(?P=fence)[ \t]*$", re.DOTALL | re.MULTILINE
)


def read_myst(source: str) -> Truth:
    matter = re.match(r"---\n(.*?)\n---\n", source, re.DOTALL)
    meta = yaml.safe_load(matter.group(1)) if matter else {}
    rest = source[matter.end() :] if matter else source
    floats = [m.group("inside") for m in _FENCED.finditer(rest)]
    prose = re.sub(r"<!--.*?-->", "", _FENCED.sub("\n\n", rest), flags=re.DOTALL)
    sections, paragraphs = [], []
    for block in re.split(r"\n\s*\n|\n(?=#)|\n(?=\s*(?:[-*+]|\d+\.) )", prose):
        text = block.strip()
        if heading := re.match(r"#+\s+(.*)", text):
            sections.append(_plain_myst(heading.group(1)))
            text = text[heading.end() :].strip()
        if not text or re.match(r"[|>(:]|\+\+|!\[|\$\$|\[\^|\[@?[\w-]+\]:", text):
            continue
        text = re.sub(r"^(?:[-*+]|\d+\.)\s+", "", text)
        kept = _MYST_CUT.sub("", text)
        paragraphs.append(TrueParagraph(_plain_myst(kept), kept == text))
    text = " ".join([*sections, *(p.text for p in paragraphs), *(_plain_myst(_MYST_CUT.sub("", f)) for f in floats)])
    title, abstract = (_plain_myst(_MYST_CUT.sub("", str(meta.get(key) or ""))) for key in ("title", "abstract"))
    return Truth(title, abstract, tuple(sections), tuple(p for p in paragraphs if p.text), f"{title} {abstract} {text}")


def _plain_myst(text: str) -> str:
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return " ".join(re.sub(r"\*+|`|(?<!\w)_+|_+(?!\w)|\\(?=\W)", "", text).split())


_FLOAT_ENVIRONMENTS = "figure|table|lstlisting|verbatim|equation|align|tabular|tabularx|subfigure|minted"
_TEX_FLOAT = re.compile(
    rf"\\begin\{{(?P<name>(?:{_FLOAT_ENVIRONMENTS})\*?)\}}(?P<inside>.*?)\\end\{{(?P=name)\}}", re.DOTALL
)
_TEX_CUT = re.compile(
    r"\\(?:cite\w*|autoref|ref|eqref|footnote|footnotemark|includegraphics)\*?(?:\[[^\]]*\])*\{[^{}]*\}|(?<!\\)\$[^$]*\$"
)
_TEX_SECTION = re.compile(r"\\(?:sub)*section\*?\{(?P<title>(?:[^{}]|\{[^{}]*\})*)\}")


def read_latex(source: str) -> Truth:
    source = re.sub(r"(?<!\\)%.*", "", source)
    source = re.sub(r"\\label\{[^{}]*\}", "", source)
    title = re.search(r"\\title(?:\[[^\]]*\])?\{((?:[^{}]|\{[^{}]*\})*)\}", source)
    abstract = re.search(r"\\begin\{abstract\}(.*?)\\end\{abstract\}", source, re.DOTALL)
    rest = source[abstract.end() :] if abstract else source
    floats = [m.group("inside") for m in _TEX_FLOAT.finditer(rest)]
    sections = [_plain_latex(m["title"]) for m in _TEX_SECTION.finditer(rest)]
    prose = _TEX_SECTION.sub("\n\n", _TEX_FLOAT.sub("\n\n", rest))
    prose = re.sub(r"\\(?:begin|end)\{[^{}]*\}(?:\[[^\]]*\])?|\\item(?:\[[^\]]*\])?", "\n\n", prose)
    paragraphs = []
    for block in re.split(r"\n\s*\n", prose):
        kept = _TEX_CUT.sub("", block)
        if text := _plain_latex(kept):
            paragraphs.append(TrueParagraph(text, kept == block))
    heads = [_plain_latex(m.group(1)) if m else "" for m in (title, abstract)]
    everything = [
        *heads,
        *sections,
        *(p.text for p in paragraphs),
        *(_plain_latex(_TEX_CUT.sub("", f)) for f in floats),
    ]
    return Truth(heads[0], heads[1], tuple(sections), tuple(paragraphs), " ".join(everything))


def _plain_latex(text: str) -> str:
    """Macros give way to their last argument; the print's quotes and dashes."""
    text = re.sub(r"\\href\{[^{}]*\}", "", text)
    for _ in range(3):  # macros inside macros
        text = re.sub(r"\\[a-zA-Z]+\*?(?:\[[^\]]*\])?\{([^{}]*)\}", r"\1", text)
    text = re.sub(r"\\[a-zA-Z]+\*?", " ", text)
    text = text.replace("``", "“").replace("''", "”").replace("---", "—").replace("--", "–").replace("~", " ")
    return " ".join(re.sub(r"\\([&%$#_{}])|[{}]|\\\\", r"\1", text).split())
