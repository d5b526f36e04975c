"""`write_queries`: from groups of papers to questions with aligned evidence, split and checked."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlm_core.files import content_key
from rlm_core.params import QueriesParams
from rlm_core.records import Evidence, Query, Span, tier_of
from rlm_core.synthesis.align import TextIndex
from rlm_core.synthesis.checks import similar, topic_stems
from rlm_core.synthesis.drafts import Draft, Writer
from rlm_core.synthesis.extractive import ExtractiveWriter
from rlm_core.synthesis.formats.own import read_questions
from rlm_core.synthesis.formats.rows import QuestionRow
from rlm_core.synthesis.imported import ImportWriter, together
from rlm_core.synthesis.marks import bad_ids
from rlm_core.synthesis.passages import Passage, passages_of
from rlm_core.synthesis.query_report import QueryReport, drop_leaks
from rlm_core.synthesis.splits import SPLITS, PaperGroup, split_groups
from rlm_core.synthesis.words import squeeze

if TYPE_CHECKING:
    from rlm_core.papers.records import Paper

log = logging.getLogger("rlm.queries")


def write_queries(
    groups: Iterable[Any],
    ocr_library: Mapping[str, Paper],
    parsed_library: Mapping[str, Paper],
    params: QueriesParams,
    seed: int,
    *,
    cache_folder: Path | None = None,
) -> QueryReport:
    """Write the questions of all groups and align their evidence to the parsed text.

    `groups`: rows or records with `id` and `paper_ids`. A paper missing in a library is left out, with a warning. Evidence
    that the parsed text does not hold drops its question, counted by reason. The endpoint writer keeps its replies in
    `cache_folder` and does not ask twice. Deterministic given its inputs; raises `ValueError` for unusable input.
    """
    report = QueryReport()
    kept = _known_groups(groups, ocr_library, parsed_library, report)
    questions = read_questions(params.questions) if params.writer == "import" else []
    kept = together(kept, questions)
    parts, cut = split_groups(kept, val_share=params.val_share, test_share=params.test_share, seed=seed)
    if cut:
        report.warn(
            f"only {len(kept)} group(s) for three splits: papers were split inside the groups, so multi-paper questions "
            "see fewer papers; add papers on other topics to have splits by group"
        )
    library = {p: passages_of(ocr_library[p]) for g in kept for p in g.paper_ids}
    silent = [p for p, passages in library.items() if not any(x.can_be_evidence for x in passages)]
    if silent:
        report.warn(f"{len(silent)} paper(s) have no paragraph fit to be evidence: {', '.join(silent[:5])}")
    writer = make_writer(params, library, seed, cache_folder, questions)
    every = [{p: library[p] for p in group.paper_ids} for split in SPLITS for group in parts[split]]
    writer.prepare(every, params.single_per_paper, params.multi_per_group)
    aligner = Aligner(ocr_library, parsed_library, params, writer, report)
    for split in SPLITS:
        for group in parts[split]:
            report.add(split, _write_group(group, library, writer, aligner, params))
    report.rejected.update(writer.rejected)
    drop_leaks(report)
    report.usage = dict(writer.usage)
    report.writer = {"name": writer.name, "version": writer.version}
    for split in SPLITS:
        if not report.queries[split]:
            report.warn(f"the {split} split is empty; see the rejections by reason")
    return report


def make_writer(
    params: QueriesParams,
    library: Mapping[str, Sequence[Passage]],
    seed: int,
    cache_folder: Path | None,
    questions: Sequence[QuestionRow] = (),
) -> Writer:
    if params.writer == "import":
        return ImportWriter(questions, library)
    if params.writer == "extractive":
        return ExtractiveWriter(library, seed)
    from rlm_core.synthesis.endpoint import EndpointWriter

    assert params.endpoint is not None  # checked by QueriesParams
    return EndpointWriter(params.endpoint, cache_folder=cache_folder)


def _known_groups(
    groups: Iterable[Any], ocr: Mapping[str, Paper], parsed: Mapping[str, Paper], report: QueryReport
) -> list[PaperGroup]:
    kept: list[PaperGroup] = []
    missing: list[str] = []
    for row in groups:
        group_id, papers = (row["id"], row["paper_ids"]) if isinstance(row, Mapping) else (row.id, row.paper_ids)
        missing += [p for p in papers if p not in ocr or p not in parsed]
        if here := tuple(p for p in papers if p in ocr and p in parsed):
            kept.append(PaperGroup(str(group_id), here))
    if missing:
        report.warn(
            f"{len(missing)} paper(s) were parsed or read by OCR but not both, and left out: {', '.join(missing[:5])}"
        )
    if not kept:
        raise ValueError(
            "no group holds a paper that was both parsed and read by OCR; look at the reports of these stages"
        )
    return kept


def _write_group(
    group: PaperGroup,
    library: Mapping[str, Sequence[Passage]],
    writer: Writer,
    aligner: Aligner,
    params: QueriesParams,
) -> list[Query]:
    queries: list[Query] = []
    papers = {p: library[p] for p in group.paper_ids}
    if len(papers) > 1:
        drafts = writer.multi(papers, params.multi_per_group)
        queries += aligner.take(drafts, group.id, params.multi_per_group)
    for passages in papers.values():
        queries += aligner.take(writer.single(passages, params.single_per_paper), group.id, params.single_per_paper)
    return queries


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
