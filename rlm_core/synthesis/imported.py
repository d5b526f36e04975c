"""The import writer: questions of a file, whose evidence is aligned and checked like that of any other writer."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rlm_core.records import Kind
from rlm_core.synthesis.drafts import Draft
from rlm_core.synthesis.formats.rows import QuestionRow
from rlm_core.synthesis.passages import Passage
from rlm_core.synthesis.splits import PaperGroup
from rlm_core.synthesis.words import squeeze


class ImportWriter:
    """Gives out each question once, with the paper or the group that it is about."""

    name = "import"
    version = "1"

    def __init__(self, questions: Iterable[QuestionRow], library: Mapping[str, Sequence[Passage]]) -> None:
        self._unread = 0
        self._given = 0
        self._library = library
        self._left: dict[tuple[Kind, str], list[QuestionRow]] = defaultdict(list)
        for question in questions:
            if needed_papers(question) - library.keys():
                self._unread += 1
            else:
                many = len(needed_papers(question)) > 1
                home = min(needed_papers(question))
                self._left["multi" if many else "single", home].append(question)

    @property
    def rejected(self) -> Counter[str]:
        """Questions that were never asked for stand beyond what `single` and `multi` were to give."""
        beyond = sum(map(len, self._left.values())) - self._given
        counts = {
            "names a paper that was not read": self._unread,
            "beyond queries.single_per_paper or queries.multi_per_group": beyond,
        }
        return Counter({reason: count for reason, count in counts.items() if count})

    @property
    def usage(self) -> dict[str, int]:
        return {}

    def prepare(self, groups: Iterable[Mapping[str, Sequence[Passage]]], singles: int, multis: int) -> None:
        """Nothing to ask in advance."""

    def single(self, passages: Sequence[Passage], wanted: int) -> Iterator[Draft]:
        """The questions on one paper, in the file's order."""
        paper_id = passages[0].paper_id if passages else ""
        yield from self._take("single", paper_id, (paper_id,))

    def multi(self, papers: Mapping[str, Sequence[Passage]], wanted: int) -> Iterator[Draft]:
        """The questions on several papers of a group; where they list no papers, the whole group may be read."""
        for paper_id in papers:
            yield from self._take("multi", paper_id, tuple(papers))

    def _take(self, kind: Kind, home: str, readable: tuple[str, ...]) -> Iterator[Draft]:
        for question in self._left.get((kind, home), ()):
            evidence = tuple(self._passage(e.paper, e.text) for e in question.evidence)
            details = {**question.metadata, **({"imported_id": question.id} if question.id else {})}
            self._given += 1
            yield Draft(question.question, kind, question.papers or readable, evidence, details)

    def _passage(self, paper_id: str, text: str) -> Passage:
        """The evidence, on the page where the clean text has it (1 where it does not)."""
        letters = squeeze(text)
        page = next((p.page for p in self._library[paper_id] if letters in p.letters or p.letters in letters), 1)
        return Passage(paper_id, -1, " ".join(text.split()), page=page)


def needed_papers(question: QuestionRow) -> frozenset[str]:
    return frozenset(question.papers) | question.evidence_papers


def together(groups: Sequence[PaperGroup], questions: Iterable[QuestionRow]) -> list[PaperGroup]:
    """Groups that a question's papers join are one, so that splits by group keep them together."""
    home = {paper: number for number, group in enumerate(groups) for paper in group.paper_ids}
    parent = list(range(len(groups)))

    def root(number: int) -> int:
        while parent[number] != number:
            number = parent[number]
        return number

    for question in questions:
        roots = sorted({root(home[p]) for p in needed_papers(question) if p in home})
        for other in roots[1:]:
            parent[other] = roots[0]
    members: dict[int, list[str]] = defaultdict(list)
    for number, group in enumerate(groups):
        members[root(number)] += group.paper_ids
    return [PaperGroup(groups[number].id, tuple(papers)) for number, papers in members.items()]
