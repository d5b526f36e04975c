"""The judge of a stage: one that passed its own check, or one that the params say to use all the same."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rlm_core.files import read_jsonl
from rlm_core.params import JudgeParams
from rlm_core.records import Query
from rlm_core.rewards import Judge, JudgeOutOfReach, make_judge
from tasks.common import CACHE, Stage, StageError, log

QUERIES = Path("data/queries")
FOLDER = CACHE / "judge"
"""Shared by all stages: a check and a verdict are paid for once."""


def open_judge(stage: Stage) -> tuple[Judge, dict[str, Any] | None]:
    """The judge of `judge`, and what its check found; None for `lexical`, which is deterministic and checked by tests.

    Raises `StageError` for a rubric judge that fails the check while its `check` is `require`, and for params that name
    none. The check asks about labelled answers made from train and val questions; an equal one is not repeated.
    """
    return _checked(stage, stage.params.judge, "judge")


def open_guard_judge(stage: Stage) -> tuple[Judge | None, dict[str, Any] | None]:
    """The judge of `grpo.guard_judge`, which the reward never sees, under the same check; None where there is none."""
    params = stage.params.grpo.guard_judge
    return (None, None) if params is None else _checked(stage, params, "grpo.guard_judge")


def _checked(stage: Stage, params: JudgeParams, section: str) -> tuple[Judge, dict[str, Any] | None]:
    """`section`: where the params stand, for messages; its last part names the metrics."""
    try:
        judge = make_judge(params, FOLDER / "verdicts")
    except ValueError as error:
        raise StageError(str(error)) from error
    if params.kind == "lexical":
        return judge, None
    from rlm_core.rewards.reliability import check_params

    try:
        with judge_in_reach():
            report = check_params(params, _queries(), folder=FOLDER / "checks", seed=stage.params.seed)
    except ValueError as error:
        if params.check == "report":
            log.warning("judge %s is used UNCHECKED (%s.check: report): %s", judge.name, section, error)
            return judge, {"passed": False, "faults": [f"not checked: {error}"]}
        raise StageError(
            f"{section}: {error}. Give more queries, or take the judge unchecked with {section}.check: report"
        ) from error
    prefix = f"{section.rpartition('.')[2]}_check"
    stage.log_metrics({f"{prefix}_{name}": value for name, value in _figures(report).items()})
    if report["passed"]:
        log.info("judge %s passed its check: weighted kappa %s", judge.name, _kappas(report))
        return judge, summary_of(report)
    faults = "; ".join(report["faults"])
    if params.check == "require":
        raise StageError(
            f"{section}: {judge.name} fails its own check: {faults}. See it all with `rlm-forge judge check`; use another "
            f"judge, set {section}.guard or {section}.panel, or go on with it by {section}.check: report"
        )
    log.warning("%s FAILS its own check and is used all the same (%s.check: report): %s", judge.name, section, faults)
    return judge, summary_of(report)


@contextlib.contextmanager
def judge_in_reach() -> Iterator[None]:
    """A judge that refuses or keeps silent as `StageError`; verdicts and rollouts finished by then are kept."""
    try:
        yield
    except JudgeOutOfReach as error:
        raise StageError(f"judge: {error}") from error


def summary_of(report: dict[str, Any]) -> dict[str, Any]:
    """What a stage's own report says of its judge."""
    return {"passed": report["passed"], "faults": report["faults"], **_figures(report)}


def note_on(check: dict[str, Any] | None) -> list[str]:
    """A sentence for the reader of a report; none for a judge that needs no check."""
    if check is None:
        return []
    if not check["passed"]:
        return [f"UNSOUND judge: it fails its own check and was used all the same: {'; '.join(check['faults'])}."]
    kappas = f"{check['kappa_precision']:.2f} for precision and {check['kappa_recall']:.2f} for recall"
    return [f"The judge passed its own check on labelled answers: weighted kappa {kappas}."]


def _figures(report: dict[str, Any]) -> dict[str, float]:
    figures = {
        "kappa_precision": report["agreement"]["precision"]["kappa"],
        "kappa_recall": report["agreement"]["recall"]["kappa"],
        "flips_share": report["flips"]["any_share"],
        "gave_in_share": report["injection"]["share"],
        "failed_share": report["failures"]["share"],
    }
    return {name: value for name, value in figures.items() if value is not None}


def _kappas(report: dict[str, Any]) -> str:
    return ", ".join(f"{row['kappa']:.2f} ({name})" for name, row in report["agreement"].items())


def _queries() -> Sequence[Query]:
    files = [path for split in ("train", "val") if (path := QUERIES / f"{split}.jsonl").exists()]
    return [Query.from_dict(row) for path in files for row in read_jsonl(path)]
