"""A small made-up library for tests: papers of a topic share some phrases and have paragraphs of their own.

All but the phrases are made-up words, different in every paragraph, so that nothing repeats by accident.
"""

from __future__ import annotations

import random

from rlm_core.papers.records import Paper, Paragraph

SUBJECTS = {
    "soil": ["winter rye", "hairy vetch", "tillage radish", "crimson clover"],
    "lamps": ["sodium lamp", "mercury tube", "gallium diode", "xenon burner"],
    "whales": ["minke whale", "pilot whale", "sperm whale", "bowhead whale"],
}
SHARED = {
    "soil": ["drainage lysimeter", "loess terrace", "penetration resistance"],
    "lamps": ["integrating sphere", "ballast current", "flicker threshold"],
    "whales": ["hydrophone array", "dive profile", "krill swarm"],
}
"""The first phrase is in four papers of its topic, the second in three, the third in two."""
OWN = ["nitrate leaching", "harvest schedule", "calibration drift", "visitor survey"]
_SYLLABLES = ["ba", "ri", "to", "nel", "qua", "shi", "vor", "em", "ust", "pla", "gri", "don", "cy", "wex", "hal", "mi"]


def paragraphs_of(topic: str, number: int) -> list[str]:
    """Four paragraphs of the paper's own, and one on each shared phrase that falls to it."""
    subject = SUBJECTS[topic][number]
    shared = [phrase for place, phrase in enumerate(SHARED[topic]) if number < 4 - place]
    phrases = [f"{subject} {own}" for own in OWN] + shared
    return [_paragraph(phrase, random.Random(f"{topic} {number} {phrase}")) for phrase in phrases]


def _paragraph(phrase: str, rng: random.Random) -> str:
    def word() -> str:
        return "".join(rng.choices(_SYLLABLES, k=3))

    return (
        f"The {word()} of the {phrase} was over when a {word()} came into the {word()} and its {word()} {word()} stood in the "
        f"{word()} of another. After the {word()}, with the {word()} at its most {word()}, we were told by those from the "
        f"{word()} that a {word()} is seldom without its {word()}."
    )


def library(
    topics: tuple[str, ...] = ("soil", "lamps", "whales"), papers: int = 4
) -> tuple[list[dict], dict[str, Paper], dict[str, Paper]]:
    """(groups, ocr, parsed): the parsed text breaks its lines at 60 characters, and its pages after 12 lines."""
    groups, ocr, parsed = [], {}, {}
    for topic in topics:
        groups.append({"id": topic, "paper_ids": [f"{topic}{n}" for n in range(papers)]})
        for number, paper_id in enumerate(groups[-1]["paper_ids"]):
            texts = paragraphs_of(topic, number)
            box = (0.0, 0.0, 1.0, 1.0)
            rows = [Paragraph(f"A study of {topic}", 1, box, "title")]
            rows += [Paragraph(text, 1 + i // 4, box, section="Results") for i, text in enumerate(texts)]
            ocr[paper_id] = Paper(
                id=paper_id,
                title=f"{topic} {number}",
                pages=("\n\n".join(r.text for r in rows),),
                paragraphs=tuple(rows),
                engine="rapidocr",
                engine_version="3.10",
                mode="ocr",
                provenance={"dpi": 150},
            )
            lines = [line for text in texts for line in wrap(text)]
            pages = tuple("\n".join(lines[i : i + 12]) for i in range(0, len(lines), 12))
            parsed[paper_id] = Paper(id=paper_id, title=f"{topic} {number}", pages=pages, engine="pdfplumber")
    return groups, ocr, parsed


def wrap(text: str, width: int = 60) -> list[str]:
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) >= width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines
