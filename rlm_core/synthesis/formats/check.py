"""Whether imported evidence stands in the imported papers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from rlm_core.papers.records import Paper
from rlm_core.synthesis.align import TextIndex
from rlm_core.synthesis.formats.rows import Imported, QuestionRow

MIN_HELD = 0.95
"""Share of the passage's letters; the rest may be a heading that stands between two paragraphs of it."""


def checked(found: Imported) -> Imported:
    """Without the questions whose evidence its paper does not hold; those on papers that the file lacks stay, for papers may
    come from elsewhere. Raises `ValueError` for two papers of one id."""
    papers = {paper.id: paper for paper in found.papers}
    if len(papers) < len(found.papers):
        twice = sorted(name for name, count in Counter(p.id for p in found.papers).items() if count > 1)
        raise ValueError(f"{', '.join(twice[:5])}: more than one paper of this id; each needs one of its own")
    indexes: dict[str, TextIndex] = {}
    kept: list[QuestionRow] = []
    for question in found.questions:
        if all(_holds(e.paper, e.text, papers, indexes) for e in question.evidence):
            kept.append(question)
        else:
            found.rejected["evidence not in the paper"] += 1
    return Imported(found.papers, kept, found.rejected)


def _holds(paper_id: str, text: str, papers: Mapping[str, Paper], indexes: dict[str, TextIndex]) -> bool:
    if paper_id not in papers:
        return True
    if " ".join(text.split()) in papers[paper_id].text:
        return True
    if paper_id not in indexes:
        indexes[paper_id] = TextIndex(papers[paper_id].text)
    return bool(indexes[paper_id].locate(text, min_score=MIN_HELD))
