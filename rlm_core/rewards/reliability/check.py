"""A judge's own check: ask it about labelled cases, more than once, and say whether it may be used."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlm_core.files import content_key, read_kept, write_json
from rlm_core.params import JudgeParams
from rlm_core.progress import Progress
from rlm_core.records import Query
from rlm_core.rewards.judges import Judge, judge_all, make_judge
from rlm_core.rewards.panel import PanelJudge
from rlm_core.rewards.reliability.cases import VERSION, Answered, Case, make_cases
from rlm_core.rewards.reliability.figures import Limits, summarise
from rlm_core.rewards.rubric import RubricJudge

QUERIES = 12
REPEATS = 2


async def ask_all(judge: Judge, cases: Sequence[Case], *, repeats: int, concurrency: int) -> list[Answered]:
    """Every case `repeats` times, at most `concurrency` at once; None where the judge failed, as `judge_all` says."""
    items = [(case.question, list(case.answer), list(case.gold)) for case in cases for _ in range(repeats)]
    with Progress("judge check", len(items), "verdicts") as progress:
        verdicts = await judge_all(judge, items, concurrency, on_done=progress.advance)
    return [Answered(case, tuple(verdicts[i * repeats : (i + 1) * repeats])) for i, case in enumerate(cases)]


async def check_judge(
    judge: Judge,
    queries: Sequence[Query],
    *,
    count: int = QUERIES,
    repeats: int = REPEATS,
    concurrency: int = 8,
    limits: Limits | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """The report on a judge, see `figures.summarise`. The judge must keep no cache, or repetitions show nothing."""
    cases = make_cases(queries, count=count, seed=seed)
    answered = await ask_all(judge, cases, repeats=repeats, concurrency=concurrency)
    report = {"judge": judge.name, "version": VERSION, "repeats": repeats}
    return report | summarise(answered, limits or Limits(), seed=seed) | {"cost": spent_by(judge)}


def check_params(
    params: JudgeParams,
    queries: Sequence[Query],
    *,
    folder: Path | None = None,
    count: int = QUERIES,
    repeats: int = REPEATS,
    seed: int = 0,
) -> dict[str, Any]:
    """The report on the judge that the params name; with `folder`, kept there by judge and cases, and paid for once."""
    judge = make_judge(params)
    key = content_key(VERSION, identity(judge), make_cases_key(queries, count, seed), repeats)
    path = folder / f"{key}.json" if folder else None
    if path and (kept := read_kept(path, dict)) is not None:
        return kept

    async def checked() -> dict[str, Any]:
        try:
            return await check_judge(
                judge,
                queries,
                count=count,
                repeats=repeats,
                seed=seed,
                concurrency=sum(e.max_concurrency for e in params.endpoints) or 1,
            )
        finally:
            for member in _rubric_judges(judge):
                await member.aclose()

    report = asyncio.run(checked())
    # A judge that could not be reached says nothing of its reliability: ask again next time. Empty answers need no call.
    if path and any(row["judged"] for row in report["kinds"] if row["kind"] != "empty"):
        write_json(path, report)
    return report


def make_cases_key(queries: Sequence[Query], count: int, seed: int) -> str:
    """A key of the cases: other evidence, another check."""
    return content_key(
        [
            [c.kind, c.question, c.gold, c.answer, c.precision, c.recall]
            for c in make_cases(queries, count=count, seed=seed)
        ]
    )


def identity(judge: Judge) -> Any:
    """What tells judges apart, as plain data."""
    if isinstance(judge, PanelJudge):
        return [judge.rule, [[c.name, c.weight] for c in judge.criteria], [identity(member) for member in judge.judges]]
    return judge.identity if isinstance(judge, RubricJudge) else judge.name


def spent_by(judge: Judge) -> dict[str, Any]:
    """Requests, tokens, repeated attempts and cost so far; cost None where a price is unknown, zeros without a model."""
    members = _rubric_judges(judge)
    costs = [member.cost for member in members]
    return {
        "requests": sum(m.usage.requests for m in members),
        "retries": sum(m.usage.retries for m in members),
        "prompt_tokens": sum(m.usage.prompt_tokens for m in members),
        "completion_tokens": sum(m.usage.completion_tokens for m in members),
        "cost": None if None in costs else sum(c for c in costs if c is not None),
    }


def _rubric_judges(judge: Judge) -> list[RubricJudge]:
    members = judge.judges if isinstance(judge, PanelJudge) else (judge,)
    return [member for member in members if isinstance(member, RubricJudge)]
