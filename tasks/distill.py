"""Stage `distill`: teacher rollouts -> SFT rows.

Reads data/teacher/rollouts.jsonl, data/queries/{train,val}.jsonl. Writes data/sft/{train,val}.parquet, reports/distill.json
and reports/distill.png: the teacher's trees before and after the filters.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from pathlib import Path

from rlm_core.distill import SftRow, distil, judge_teacher, split_rows
from rlm_core.distill.figure import facts_of, save_before_after
from rlm_core.files import read_jsonl, write_json
from rlm_core.policies import ChatRenderer, ModelError, load_tokenizer, materialise_model
from rlm_core.records import Query
from rlm_core.rewards.reliability import spent_by
from rlm_core.rollouts import read_rollouts
from tasks.common import Stage, StageError, dump, log, require, stage_main
from tasks.judging import judge_in_reach, open_judge
from tasks.training import publish_folder

TEACHER = Path("data/teacher/rollouts.jsonl")
QUERIES = Path("data/queries")
OUT = Path("data/sft")
REPORT = Path("reports/distill.json")
FIGURE = Path("reports/distill.png")


def run(stage: Stage) -> None:
    params = stage.params
    trees = list(read_rollouts(require(TEACHER, "teach")))
    splits = {name: _queries(QUERIES / f"{name}.jsonl") for name in ("train", "val")}
    queries = {q.id: q for rows in splits.values() for q in rows}
    if unknown := sorted({t.query_id for t in trees} - queries.keys()):
        raise StageError(
            f"{TEACHER} has rollouts of {len(unknown)} queries that {QUERIES} does not hold (e.g. {unknown[0]!r}); "
            "roll the teacher out on the present queries: dvc repro teach"
        )
    try:
        renderer = ChatRenderer(load_tokenizer(materialise_model(params.model.name, dtype=params.model.dtype)))
    except ModelError as error:
        raise StageError(f"model.name: {error}") from error
    judge, judge_check = open_judge(stage)
    with judge_in_reach():
        judgements = asyncio.run(judge_teacher(judge, trees, queries))
    distilled = distil(trees, judgements, queries, renderer, params.distill)
    train, val = split_rows(distilled.rows, {q.id for q in splits["val"]}, params.seed)
    report = {**distilled.report, "train_rows": len(train), "val_rows": len(val), "judge": judge.name}
    report |= {"judge_check": judge_check, "judge_cost": spent_by(judge)}
    write_json(REPORT, {**report, "params": dump(params.distill)})
    kept = {tree.id for tree in distilled.kept}
    passed = [tree.id in kept for tree in trees]
    save_before_after(facts_of(trees, judgements), passed, FIGURE)
    for line in _table(report):
        log.info("%s", line)
    if not train:
        raise StageError(
            f"no turn of {len(trees)} teacher rollouts passed the filters; {REPORT} says what dropped them. "
            "Lower distill.min_reward, raise distill.max_row_tokens, or use a better teacher"
        )
    _write(train, val)
    stage.log_metrics(
        {
            "trees_kept": report["trees"]["kept"],
            "rows_train": len(train),
            "rows_val": len(val),
            "share_mended": report["repair"]["share_mended"],
            "judge_prompt_tokens": report["judge_cost"]["prompt_tokens"],
            "judge_completion_tokens": report["judge_cost"]["completion_tokens"],
            **({"judge_cost": cost} if (cost := report["judge_cost"]["cost"]) is not None else {}),
            "reward_before": report["before"]["reward"],
            "reward_after": report["after"]["reward"],
        }
    )
    stage.log_artifact(REPORT)
    stage.log_artifact(FIGURE)


def _queries(path: Path) -> list[Query]:
    return [Query.from_dict(row) for row in read_jsonl(require(path, "queries"))]


def _write(train: Sequence[SftRow], val: Sequence[SftRow]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema(
        [
            ("prompt_ids", pa.list_(pa.int32())),
            ("completion_ids", pa.list_(pa.int32())),
            ("node_id", pa.string()),
            ("turn", pa.int32()),
            ("role", pa.string()),
            ("reward", pa.float32()),
            ("query_id", pa.string()),
        ]
    )
    work = OUT.with_name(f".{OUT.name}.part")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    for name, rows in (("train", train), ("val", val)):
        pq.write_table(pa.Table.from_pylist([r.to_dict() for r in rows], schema=schema), work / f"{name}.parquet")
    publish_folder(work, OUT)


def _table(report: dict[str, object]) -> list[str]:
    filters = report["filters"]
    assert isinstance(filters, list)
    lines = [f"distill: {row['unit']:5} {row['name']:18} dropped {row['dropped']}" for row in filters]
    return [*lines, f"distill: {report['train_rows']} training rows, {report['val_rows']} validation rows"]


if __name__ == "__main__":
    stage_main("distill", run)
