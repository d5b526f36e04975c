"""Groups of similar papers, near-duplicates, and figures that say how good the groups are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlm_core.papers.duplicates import near_duplicates
from rlm_core.papers.records import Paper

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True)
class Group:
    """Papers that questions may be asked over together; similar enough to distract from each other."""

    id: str
    paper_ids: tuple[str, ...]
    similarity: float
    """Mean cosine similarity between its papers; 1.0 for a paper alone."""
    key_words: tuple[str, ...] = ()
    """Terms that weigh most in it."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "paper_ids": list(self.paper_ids),
            "similarity": round(self.similarity, 4),
            "key_words": list(self.key_words),
        }

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Group:
        return cls(
            row["id"], tuple(row["paper_ids"]), float(row.get("similarity", 1.0)), tuple(row.get("key_words", ()))
        )


@dataclass(frozen=True, slots=True)
class Grouping:
    """All groups of a library and how good they are."""

    groups: tuple[Group, ...]
    duplicates: tuple[tuple[str, str, float], ...]
    """Pairs of papers that are nearly the same text, with the share of it that they share; always in one group."""
    neighbours: Mapping[str, tuple[str, float]]
    """Each paper's nearest other one and their cosine similarity; empty for a library of one paper."""
    silhouette: float | None
    """-1..1 by cosine distance, higher is tighter; None with fewer than 2 groups or only single papers."""
    neighbour_agreement: float | None
    """Share of papers whose nearest neighbour is in their own group, of those not alone; None if all are alone."""


def group_papers(
    papers: Sequence[Paper], max_papers: int = 10, min_similarity: float = 0.2, seed: int = 42
) -> list[Group]:
    """Every paper in exactly one group of at most `max_papers`; see `make_grouping`."""
    return list(make_grouping(papers, max_papers, min_similarity, seed).groups)


def make_grouping(
    papers: Sequence[Paper], max_papers: int = 10, min_similarity: float = 0.2, seed: int = 42
) -> Grouping:
    """Group papers by TF-IDF over title, abstract and body.

    Starting from single papers the two groups with the highest mean similarity between their papers are joined (average
    linkage) while the result fits into `max_papers` and that mean is at least `min_similarity`. Near-duplicates start
    together, so that no split parts them; a group with more than `max_papers` is made of nothing else. Ties go by `seed`;
    the order of `papers` does not matter.
    """
    import numpy as np

    if len({paper.id for paper in papers}) != len(papers):
        raise ValueError("two papers have the same id; ids must be unique to group papers")
    if not papers:
        return Grouping((), (), {}, None, None)
    ordered = sorted(papers, key=lambda paper: paper.id)
    ordered = [ordered[n] for n in np.random.default_rng(seed).permutation(len(ordered))]
    vectors, terms = _vectors(ordered)
    similarity = np.asarray((vectors @ vectors.T).todense())
    duplicates = near_duplicates(ordered)
    start = _together([paper.id for paper in ordered], duplicates)
    members = _link(similarity, start, max_papers, min_similarity)
    rows = sorted((sorted(cluster, key=lambda n: ordered[n].id) for cluster in members), key=lambda c: ordered[c[0]].id)
    groups = tuple(
        Group(
            f"g{number:03d}", tuple(ordered[n].id for n in row), _mean(similarity, row), _key_words(vectors, row, terms)
        )
        for number, row in enumerate(rows)
    )
    nearest = _nearest(similarity)
    return Grouping(
        groups,
        duplicates,
        {ordered[n].id: (ordered[m].id, float(similarity[n, m])) for n, m in enumerate(nearest)},
        _silhouette(similarity, rows),
        _agreement(nearest, rows),
    )


def _together(ids: Sequence[str], pairs: Sequence[tuple[str, str, float]]) -> list[list[int]]:
    """Positions of ids, those that a chain of pairs links in one list."""
    clusters = {paper_id: [n] for n, paper_id in enumerate(ids)}
    for a, b, _ in pairs:
        if clusters[a] is not clusters[b]:
            clusters[a] += clusters[b]
            for n in clusters[b]:
                clusters[ids[n]] = clusters[a]
    return list({id(cluster): cluster for cluster in clusters.values()}.values())


def _vectors(papers: Sequence[Paper]) -> tuple[Any, Sequence[str]]:
    from sklearn.feature_extraction.text import TfidfVectorizer

    # A title says more than a paragraph of the body, so it counts three times, an abstract twice.
    texts = [f"{(p.title + ' ') * 3}{(p.abstract + ' ') * 2}{p.text}" for p in papers]
    vectorizer = TfidfVectorizer(
        sublinear_tf=True,
        stop_words="english",
        strip_accents="unicode",
        token_pattern=r"(?u)\b[^\W\d_]{3,}\b",
        min_df=2 if len(papers) > 5 else 1,
        max_df=0.8 if len(papers) > 5 else 1.0,
        max_features=50_000,
    )
    try:
        return vectorizer.fit_transform(texts), list(vectorizer.get_feature_names_out())
    except ValueError:  # no term is left: papers without a word in common
        from scipy.sparse import identity

        return identity(len(papers), format="csr"), [""] * len(papers)


def _link(similarity: np.ndarray, start: list[list[int]], max_papers: int, min_similarity: float) -> list[list[int]]:
    """Average linkage from the clusters in `start`, with a size limit."""
    import numpy as np

    count = len(start)
    members: dict[int, list[int]] = {n: list(cluster) for n, cluster in enumerate(start)}
    between: Any = np.array([[similarity[np.ix_(a, b)].mean() for b in start] for a in start], dtype=float)
    np.fill_diagonal(between, -1.0)
    sizes: Any = np.array([len(cluster) for cluster in start])
    alive: Any = np.ones(count, dtype=bool)
    while alive.sum() > 1:
        allowed = (sizes[:, None] + sizes[None, :] <= max_papers) & alive[:, None] & alive[None, :]
        scores = np.where(allowed, between, -1.0)
        a, b = sorted(int(n) for n in np.unravel_index(int(scores.argmax()), scores.shape))
        if a == b or scores[a, b] < min_similarity:
            break
        joined = (sizes[a] * between[a] + sizes[b] * between[b]) / (sizes[a] + sizes[b])
        between[a, :], between[:, a] = joined, joined
        between[a, a] = -1.0
        members[a] += members.pop(b)
        sizes[a] += sizes[b]
        alive[b] = False
    return list(members.values())


def _mean(similarity: np.ndarray, row: list[int]) -> float:
    pairs = [similarity[a, b] for i, a in enumerate(row) for b in row[i + 1 :]]
    return float(sum(pairs) / len(pairs)) if pairs else 1.0


def _key_words(vectors: Any, row: list[int], terms: Sequence[str], count: int = 6) -> tuple[str, ...]:
    import numpy as np

    weights = np.asarray(vectors[row].mean(axis=0)).ravel()
    best = np.argsort(-weights, kind="stable")[:count]
    return tuple(terms[n] for n in best if weights[n] > 0 and terms[n])


def _silhouette(similarity: np.ndarray, rows: list[list[int]]) -> float | None:
    import numpy as np

    if not 1 < len(rows) < len(similarity):
        return None
    from sklearn.metrics import silhouette_score

    labels: Any = np.zeros(len(similarity), dtype=int)
    for number, row in enumerate(rows):
        labels[row] = number
    distance = np.clip(1.0 - similarity, 0.0, None)
    np.fill_diagonal(distance, 0.0)
    return float(silhouette_score(distance, labels, metric="precomputed"))


def _nearest(similarity: np.ndarray) -> list[int]:
    """Each paper's most similar other one; empty for fewer than 2."""
    import numpy as np

    if len(similarity) < 2:
        return []
    others: Any = similarity.astype(float).copy()
    np.fill_diagonal(others, -1.0)
    return [int(n) for n in others.argmax(axis=1)]


def _agreement(nearest: Sequence[int], rows: list[list[int]]) -> float | None:
    together = [(n, row) for row in rows if len(row) > 1 for n in row]
    return sum(nearest[n] in row for n, row in together) / len(together) if together else None
