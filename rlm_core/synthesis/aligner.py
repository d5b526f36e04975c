"""From drafts to queries: evidence located in the parsed text, and what cannot be, counted by reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rlm_core.files import content_key
from rlm_core.params import QueriesParams
from rlm_core.records import Evidence, Query, Span, tier_of
from rlm_core.synthesis.align import TextIndex
from rlm_core.synthesis.checks import similar, topic_stems
from rlm_core.synthesis.drafts import Draft, Writer
from rlm_core.synthesis.marks import bad_ids
from rlm_core.synthesis.passages import Passage
from rlm_core.synthesis.query_report import QueryReport
from rlm_core.synthesis.words import squeeze

if TYPE_CHECKING:
    from rlm_core.papers.records import Paper


class Aligner:
    """Turns drafts into queries: takes the first that are new and whose evidence the parsed text holds.

    Imported questions are taken as people asked them: one may reword another, and evidence may stand in its paper twice.
    """

    def __init__(
        self,
        ocr: Mapping[str, Paper],
        parsed: Mapping[str, Paper],
        params: QueriesParams,
        writer: Writer,
        report: QueryReport,
    ) -> None:
        self._ocr, self._parsed = ocr, parsed
        self._min_score = params.min_score
        self._as_asked = params.writer == "import"
        self._bad = bad_ids(params.marks)
        self._writer = writer
        self._report = report
        self._indexes: dict[str, TextIndex] = {}
        self._topics: list[frozenset[str]] = []

    def take(self, drafts: Iterable[Draft], group_id: str, wanted: int) -> list[Query]:
        taken: list[Query] = []
        if wanted <= 0:
            return taken
        for draft in drafts:
            if query := self._query(draft, group_id):
                taken.append(query)
            if len(taken) >= wanted:
                break
        return taken

    def _query(self, draft: Draft, group_id: str) -> Query | None:
        topic = topic_stems(draft.question)
        if not self._as_asked and any(similar(topic, other) for other in self._topics):
            self._report.rejected["near-duplicate question"] += 1
            return None
        evidence: list[Evidence] = []
        for passage in draft.evidence:
            span = self._span(passage, draft.key_phrase)
            if span is None:
                return None
            evidence.append(Evidence(passage.paper_id, passage.text, span))
        key = "q" + content_key(draft.question, draft.paper_ids, [e.text for e in evidence])[:12]
        if key in self._bad:
            self._report.rejected["marked bad by a reader"] += 1
            return None
        self._topics.append(topic)
        num_papers = len({e.paper_id for e in evidence})
        return Query(
            id=key,
            question=draft.question,
            kind=draft.kind,
            tier=tier_of(num_papers),
            paper_ids=draft.paper_ids,
            evidence=tuple(evidence),
            group_id=group_id,
            provenance=self._provenance(draft),
        )

    def _span(self, passage: Passage, phrase: str) -> Span | None:
        index = self._index(passage.paper_id)
        spans = index.locate(passage.text)
        if not spans:
            self._report.rejected["evidence not in the parsed text"] += 1
            return None
        span = spans[0]
        if span.score < self._min_score:
            self._report.rejected["evidence garbled in the parsed text"] += 1
            return None
        if not self._as_asked and len(spans) > 1 and spans[1].score > 0.95 * span.score:
            self._report.rejected["evidence repeated in the paper"] += 1
            return None
        if phrase and squeeze(phrase) not in squeeze(index.text[span.start : span.end]):
            self._report.rejected["key phrase broken in the parsed text"] += 1
            return None
        return span

    def _index(self, paper_id: str) -> TextIndex:
        if paper_id not in self._indexes:
            self._indexes[paper_id] = TextIndex(self._parsed[paper_id].text)
        return self._indexes[paper_id]

    def _provenance(self, draft: Draft) -> dict[str, Any]:
        first = draft.evidence[0]
        ocr, parsed = self._ocr[first.paper_id], self._parsed[first.paper_id]
        return {
            "writer": self._writer.name,
            "writer_version": self._writer.version,
            **draft.details,
            "ocr_engine": ocr.engine,
            "ocr_version": ocr.engine_version,
            "ocr_dpi": ocr.provenance.get("dpi"),
            "parser": parsed.engine,
            "parser_version": parsed.engine_version,
            "pages": [p.page for p in draft.evidence],
        }
