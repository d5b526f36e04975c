"""How headings, captions, references and the like begin, as patterns over one line or paragraph."""

from __future__ import annotations

import re

_ONE_WORD = """
abstract summary introduction background motivation methods method materials results discussion conclusion conclusions
acknowledgements acknowledgments acknowledgement acknowledgment references bibliography appendix overview limitations
experiments evaluation implementation methodology funding
"""
_PHRASES = """
related work, future work, materials and methods, methods and materials, material and methods, results and discussion,
discussion and conclusion, discussion and conclusions, statement of need, conflict of interest, conflicts of interest,
competing interests, author contributions, authors' contributions, literature cited, works cited, supplementary material,
supplementary materials, data availability, experimental setup, statistical analysis, concluding remarks
"""
SECTION_NAMES = frozenset(_ONE_WORD.split()) | {name.strip() for name in _PHRASES.replace("\n", " ").split(",")}

NUMBERED = re.compile(r"^(?:\d{1,2}(?:\.\d{1,2}){0,3}\.?(?:\s?\|)?|[IVX]{1,4}\.|[A-H]\.(?:\d+\.?)?)\s+(?=[A-Z“\"(])")
RUN_IN = re.compile(r"^(?P<title>\d{1,2}(?:\.\d{1,2}){1,3}\.?\s+[A-Z][^.!?;]{3,80})[.:]\s+(?=[A-Z])")
"""A numbered heading on the first line of its paragraph."""
CAPTION = re.compile(
    r"^(?i:figure|fig\.?|table|scheme|listing|program|algorithm|plate|chart|graph|box)\s*\.?\s*(?:\d+|[IVX]+\b|[A-Z]\d*\b)\s*(?P<stop>[.:|)–—-]|\s)"
)
TABLE_CAPTION = re.compile(r"^table\b", re.IGNORECASE)
CODE_LINE = re.compile(
    r"^(?:from [\w.]+ import\b|import \w|def \w|class \w+\s?[(:]|return\b|@\w+|#\s?\w|>>>|\$ \w"
    r"|[\w.\[\]]+(?:, ?[\w.]+)*\s?=\s?\S|(?:[\w.]+\()+[^)]*\)?[,:]?$|[\w.]+\([^)]*\)$|[\"'].*[\"'],?$|[\])}]+[,:]?$)"
)
"""A line of a program, as far as one line can tell: imports, definitions, assignments, calls, comments, literals."""
BULLET = re.compile(r"^(?:[•●▪◦‣∙·■*–—-]|\(?(?:\d{1,2}|[a-h]|[ivx]{1,4})[.)])\s+\S")
REFERENCES = re.compile(
    r"^(?:\d+\.?\s*|[IVX]+\.\s*)?(?:references?(?: and notes)?|bibliography|literature cited|works cited)\W*$",
    re.IGNORECASE,
)
REFERENCE_MARK = re.compile(r"^(?:\[\w{1,12}\]|\(\d{1,3}\)|\d{1,3}[.)]?\s)")
AFTER_REFERENCES = re.compile(r"^(?:\w\.?\s+)?(?:appendi(?:x|ces)|supplement\w*)\b", re.IGNORECASE)
ABSTRACT = re.compile(r"^(?:abstract|summary|a\s?b\s?s\s?t\s?r\s?a\s?c\s?t)\b\s*[:.—–-]*\s*", re.IGNORECASE)
KEYWORDS = re.compile(
    r"^(?:k\s?e\s?y\s?-?\s?w\s?o\s?r\s?d\s?s?(?: and phrases)?|index terms|general terms|abbreviations|CCS concepts)\b",
    re.IGNORECASE,
)
ARTICLE_LABEL = re.compile(
    r"^(?:(?:original|review|research|short|case|brief|technical|full)\s*-?\s*)?"
    r"(?:article|research|review|paper|communication|report|note)s?(?:\s+open access)?\W*$",
    re.IGNORECASE,
)
INTRODUCTION = re.compile(r"^(?:\d+\.?\s*\|?\s*|I\.\s*)?introduction\b", re.IGNORECASE)
FOOTNOTE = re.compile(
    r"^(?:[*†‡§¶#]|\d{1,2}\s?(?=[A-Z(h])|[a-d]\s(?=[A-Z])|https?://|e-?mail\b|correspond)", re.IGNORECASE
)
SENTENCE_END = re.compile(r"[.!?:;][\"'”’)\]]*(?:\s*\[?\d{1,3}(?:[,–-]\s?\d{1,3})*\]?)?$")
"""Also before a raised reference number, which OCR and parsers write behind the stop."""
FULL_STOP = re.compile(r"[.!?][\"'”’)\]]*(?:\s*\[?\d{1,3}(?:[,–-]\s?\d{1,3})*\]?)?$")


_AUTHOR = re.compile(r"\b[A-Z][\w’'-]+,? (?:[A-Z]\.? ?-?){1,3}(?:,|\.|;| and\b| &)")
_YEAR = re.compile(r"\b(?:19|20)\d\d[a-z]?\b")
_PLACE = re.compile(
    r"\b\d{1,4}(?:\s?\(\d+\))?\s?[:,]\s?(?:pp?\.\s?)?e?\d+|\bpp?\.\s?\d|\bdoi\b|arXiv|https?://|\bIn:? ", re.IGNORECASE
)


def looks_like_reference(text: str) -> bool:
    """An entry of a list of references, wherever it stands: names with initials first, a year, and a place in print."""
    if len(text) > 600 or not _YEAR.search(text) or not _PLACE.search(text):
        return False
    author = _AUTHOR.search(text)
    return (
        author is not None
        and author.start() < 12
        and (len(_AUTHOR.findall(text)) > 1 or bool(REFERENCE_MARK.match(text)))
    )


def bare_heading(text: str) -> str:
    """The heading without its number and closing marks, in lower case."""
    return NUMBERED.sub("", text).strip(" .:—–").lower()


def is_section_name(text: str) -> bool:
    return bare_heading(text) in SECTION_NAMES


def letters_share(text: str) -> float:
    """Share of letters among all that is not white space."""
    dense = "".join(text.split())
    return sum(c.isalpha() for c in dense) / len(dense) if dense else 0.0
