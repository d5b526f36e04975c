"""What grouping makes of real papers, against topics that a person gave them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from rlm_core.papers import Paper
from rlm_core.papers.grouping import make_grouping


@dataclass(frozen=True, slots=True)
class TopicFigures:
    """One grouping. A pair of papers is right when one topic holds both."""

    way: str
    papers: int
    groups: int
    topics: int
    silhouette: float | None
    neighbour_agreement: float | None
    """Share of papers, of those not alone, whose nearest neighbour is in their group."""
    neighbour_topic: float
    """Share of papers, of those whose topic has others, whose nearest neighbour has their topic."""
    pair_precision: float
    """Of pairs in one group, the share in one topic."""
    pair_recall: float
    """Of pairs in one topic, the share in one group."""
    adjusted_rand: float
    near_duplicates: int

    @classmethod
    def of(cls, way: str, papers: Sequence[Paper], topics: Mapping[str, str]) -> TopicFigures:
        from sklearn.metrics import adjusted_rand_score

        grouping = make_grouping(papers)
        group_of = {paper_id: g.id for g in grouping.groups for paper_id in g.paper_ids}
        ids = sorted(group_of)
        pairs = list(combinations(ids, 2))
        grouped = {pair for pair in pairs if group_of[pair[0]] == group_of[pair[1]]}
        alike = {pair for pair in pairs if topics[pair[0]] == topics[pair[1]]}
        told = [i for i in ids if any(i in pair for pair in alike)]
        return cls(
            way=way,
            papers=len(ids),
            groups=len(grouping.groups),
            topics=len({topics[i] for i in ids}),
            silhouette=grouping.silhouette,
            neighbour_agreement=grouping.neighbour_agreement,
            neighbour_topic=sum(topics[grouping.neighbours[i][0]] == topics[i] for i in told) / max(1, len(told)),
            pair_precision=len(grouped & alike) / max(1, len(grouped)),
            pair_recall=len(grouped & alike) / max(1, len(alike)),
            adjusted_rand=float(adjusted_rand_score([topics[i] for i in ids], [group_of[i] for i in ids])),
            near_duplicates=len(grouping.duplicates),
        )


def topics_table(rows: Sequence[TopicFigures]) -> str:
    head = (
        "| grouped by | papers | groups | topics | silhouette | neighbour in group | neighbour of topic | "
        "pairs true | pairs found | adjusted Rand | near-duplicates |"
    )
    lines = ["", head, "|---|" + "---|" * 10]
    for r in rows:
        shares = (
            r.silhouette,
            r.neighbour_agreement,
            r.neighbour_topic,
            r.pair_precision,
            r.pair_recall,
            r.adjusted_rand,
        )
        cells = ["-" if value is None else f"{value:.3f}" for value in shares]
        lines.append(
            f"| {r.way} | {r.papers} | {r.groups} | {r.topics} | " + " | ".join(cells) + f" | {r.near_duplicates} |"
        )
    return "\n".join(lines)
