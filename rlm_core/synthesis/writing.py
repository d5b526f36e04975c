"""`write_queries`: from groups of papers to questions with aligned evidence, split and checked."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlm_core.params import QueriesParams
from rlm_core.records import Query
from rlm_core.synthesis.aligner import Aligner
from rlm_core.synthesis.drafts import Writer
from rlm_core.synthesis.extractive import ExtractiveWriter
from rlm_core.synthesis.formats.own import read_questions
from rlm_core.synthesis.formats.rows import QuestionRow
from rlm_core.synthesis.imported import ImportWriter, together
from rlm_core.synthesis.passages import Passage, passages_of
from rlm_core.synthesis.query_report import QueryReport, drop_leaks
from rlm_core.synthesis.splits import SPLITS, PaperGroup, Split, split_groups

if TYPE_CHECKING:
    from rlm_core.papers.records import Paper
    from rlm_core.synthesis.endpoint_plan import Plan

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
    parts, library, writer = _prepared(groups, ocr_library, parsed_library, params, seed, cache_folder, report)
    writer.prepare(_every(parts, library), params.single_per_paper, params.multi_per_group)
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


def plan_queries(
    groups: Iterable[Any],
    ocr_library: Mapping[str, Paper],
    parsed_library: Mapping[str, Paper],
    params: QueriesParams,
    seed: int,
    *,
    cache_folder: Path | None = None,
) -> Plan:
    """What `write_queries` would ask the endpoint, and its cost, without asking. Raises `ValueError` for another writer."""
    if params.writer != "endpoint":
        raise ValueError(f"queries.writer is '{params.writer}', which asks no endpoint and costs nothing")
    from rlm_core.synthesis.endpoint import EndpointWriter

    parts, library, writer = _prepared(groups, ocr_library, parsed_library, params, seed, cache_folder, QueryReport())
    assert isinstance(writer, EndpointWriter)
    return writer.plan(_every(parts, library), params.single_per_paper, params.multi_per_group)


def _prepared(
    groups: Iterable[Any],
    ocr: Mapping[str, Paper],
    parsed: Mapping[str, Paper],
    params: QueriesParams,
    seed: int,
    cache_folder: Path | None,
    report: QueryReport,
) -> tuple[dict[Split, list[PaperGroup]], dict[str, list[Passage]], Writer]:
    """Groups by split, the passages of their papers, and the writer."""
    kept = _known_groups(groups, ocr, parsed, report)
    questions = read_questions(params.questions) if params.writer == "import" else []
    kept = together(kept, questions)
    parts, cut = split_groups(kept, val_share=params.val_share, test_share=params.test_share, seed=seed)
    if cut:
        report.warn(
            f"only {len(kept)} group(s) for three splits: papers were split inside the groups, so multi-paper questions "
            "see fewer papers; add papers on other topics to have splits by group"
        )
    library = {p: passages_of(ocr[p]) for g in kept for p in g.paper_ids}
    silent = [p for p, passages in library.items() if not any(x.can_be_evidence for x in passages)]
    if silent:
        report.warn(f"{len(silent)} paper(s) have no paragraph fit to be evidence: {', '.join(silent[:5])}")
    return parts, library, make_writer(params, library, seed, cache_folder, questions)


def _every(
    parts: Mapping[Split, Sequence[PaperGroup]], library: Mapping[str, Sequence[Passage]]
) -> list[dict[str, Sequence[Passage]]]:
    return [{p: library[p] for p in group.paper_ids} for split in SPLITS for group in parts[split]]


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
