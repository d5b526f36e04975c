"""One cell of the ablation, or its report.

    python -m tasks.ablation cell VARIANT SEED    trains and tests one variant with one seed, in a folder of its own
    python -m tasks.ablation report               reports/ablation.json and .html from the finished cells

Reads models/sft, data/queries, data/parsed. A cell lies in .cache/ablation/KEY/VARIANT-seedN, where KEY holds all that
shapes cells; it trains through the stages' own code, so that a killed cell goes on where it was. `result.json` is written last
and marks it as finished.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import yaml

from rlm_core.ablation.page import render_page
from rlm_core.ablation.summary import summarise
from rlm_core.ablation.variants import PLANS, cell_name, cell_params
from rlm_core.files import content_key, read_json, read_jsonl, write_json, write_jsonl, write_text
from rlm_core.params import Params, Variant, load_params
from rlm_core.records import Judgement, Query, Rollout
from tasks import grpo
from tasks.common import CACHE, Stage, StageError, dump, log, require, stage_main
from tasks.judging import open_judge
from tasks.rejection import train_on_best
from tasks.training import file_keys, model_key

RESULT = Path("result.json")
CELL = Path("cell.json")
TEST = Path("data/queries/test.jsonl")
SHARED = (Path("data/parsed"), Path("data/queries/contexts"), grpo.SFT)
"""Read by every cell, changed by none; contexts are there only where the questions made their own."""
JSON, PAGE = Path("reports/ablation.json"), Path("reports/ablation.html")


def sweep_folder(params: Params) -> Path:
    """Where the cells of these params, this SFT model and these questions lie: equal inputs, equal folder."""
    require(grpo.SFT, "sft")
    queries = file_keys(*(require(path, "queries") for path in (grpo.TRAIN, TEST)))
    sections = {name: dump(getattr(params, name)) for name in ("grpo", "rollout", "repl", "judge", "model", "sft")}
    shape = params.ablation.model_dump(mode="json", exclude={"variants", "seeds"})
    return CACHE / "ablation" / content_key(params.seed, model_key(grpo.SFT), queries, sections, shape)


def prepare_cell(params: Params, variant: Variant, seed: int) -> Path:
    """The cell's folder with its params, its questions, and links to what all cells share."""
    folder = sweep_folder(params) / cell_name(variant, seed)
    train = [row for row in read_jsonl(grpo.TRAIN) if row.get("kind", "single") == params.ablation.kind]
    test = _test_rows(params)
    for rows, path in ((train, grpo.TRAIN), (test, TEST)):
        if not rows:
            raise StageError(
                f"{path} holds no {params.ablation.kind}-paper question with evidence; raise queries.multi_per_group or "
                "set ablation.kind"
            )
        write_jsonl(folder / path, rows)
    write_jsonl(folder / grpo.VAL, [])
    for shared in SHARED:
        link = folder / shared
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        if shared.exists():
            link.symlink_to(shared.resolve())
    values = cell_params(params, variant, seed).model_dump(mode="json")
    write_text(folder / "params.yaml", yaml.safe_dump(values, sort_keys=False, allow_unicode=True))
    write_json(folder / CELL, {"variant": variant, "seed": seed})
    return folder


def _test_rows(params: Params) -> list[dict[str, Any]]:
    """Test questions of the kind whose evidence the parsed text holds; the same ones for all cells."""
    rows = [row for row in read_jsonl(TEST) if row.get("kind", "single") == params.ablation.kind]
    rows = [row for row in rows if row.get("evidence") and all(e.get("span") for e in row["evidence"])]
    limit = params.ablation.queries
    if limit is not None and limit < len(rows):
        chosen = set(random.Random(f"ablation {params.seed}").sample(range(len(rows)), limit))
        rows = [row for index, row in enumerate(rows) if index in chosen]
    return rows


def run_cell(stage: Stage) -> None:
    """In the cell's folder: train as the variant says, answer the test questions, keep the figures."""
    cell = read_json(CELL)
    start = time.monotonic()
    training = train(stage, cell["variant"])
    seconds = time.monotonic() - start
    result = {**cell, **training, "train_seconds": seconds, **asyncio.run(test(stage, cell["variant"]))}
    write_json(RESULT, result)


def tidy(cell: Path) -> None:
    """Drop a finished cell's weights and caches; its params, figures and curves stay. Not before its MLflow run has ended."""
    for leftover in (grpo.OUT, CACHE, Path("mlruns")):
        shutil.rmtree(cell / leftover, ignore_errors=True)


def train(stage: Stage, variant: Variant) -> dict[str, Any]:
    """Leave models/grpo, unless it is there; returns the tokens sampled and the updates made for it."""
    method = PLANS[variant].method
    if method == "none":
        return {"sampled_tokens": 0, "updates": 0}
    if not grpo.OUT.exists():
        (grpo.run if method == "grpo" else train_on_best)(stage)
    steps = read_json(grpo.REPORT)["steps"]
    return {"sampled_tokens": round(sum(row["completion_tokens"] for row in steps)), "updates": len(steps)}


async def test(stage: Stage, variant: Variant) -> dict[str, Any]:
    """Scores a question: the mean over its samples at the training's temperature, and a greedy rollout."""
    from transformers import AutoModelForCausalLM

    from rlm_core.grpo.batches import judge_trees, roll_out

    queries = grpo.trainable_queries(TEST)
    samples = stage.params.ablation.samples_per_query
    judge, _ = open_judge(stage)
    async with grpo.open_actor(stage) as actor:
        if PLANS[variant].method != "none":
            await actor.publish(AutoModelForCausalLM.from_pretrained(grpo.OUT, dtype="auto"))
        sampled = await roll_out(actor, queries, samples, stage.params.seed)
        greedy = await roll_out(actor, queries, 1, stage.params.seed, temperature=0.0)
    asked = [query for query in queries for _ in range(samples)]
    verdicts = await judge_trees(judge, asked, sampled)
    greedy_verdicts = await judge_trees(judge, queries, greedy)
    questions = {
        query.id: score_question(
            query,
            sampled[i * samples : (i + 1) * samples],
            verdicts[i * samples : (i + 1) * samples],
            greedy_verdicts[i],
        )
        for i, query in enumerate(queries)
    }
    children = [sum(1 for _ in tree.walk()) - 1 for tree in sampled]
    return {"judge": judge.name, "questions": questions, "children_mean": sum(children) / len(children)}


def score_question(
    query: Query, rollouts: Sequence[Rollout], verdicts: Sequence[Judgement | None], greedy: Judgement | None
) -> dict[str, float | None]:
    """Means over the rollouts that have a verdict; None where there is none."""
    from rlm_core.rewards import answer_passages, evidence_f1

    judged = [(r, v) for r, v in zip(rollouts, verdicts, strict=True) if v is not None]
    return {
        "reward": sum(v.reward for _, v in judged) / len(judged) if judged else None,
        "reward_greedy": None if greedy is None else greedy.reward,
        "evidence_f1": sum(evidence_f1(answer_passages(r.answer), query.gold).f1 for r, _ in judged) / len(judged)
        if judged
        else None,
    }


def finished_cells(folder: Path, params: Params) -> list[dict[str, Any]]:
    paths = [folder / cell_name(v, s) / RESULT for v in params.ablation.variants for s in params.ablation.seeds]
    return [read_json(path) for path in paths if path.exists()]


def report(stage: Stage) -> None:
    params = stage.params
    cells = finished_cells(sweep_folder(params), params)
    try:
        record = summarise(cells, params, judge=cells[0]["judge"] if cells else params.judge.kind)
    except ValueError as error:
        raise StageError(str(error)) from error
    write_json(JSON, record)
    write_text(PAGE, render_page(record))
    for path in (JSON, PAGE):
        stage.log_artifact(path)
    stage.log_metrics(_figures(record["variants"]))
    for line in (*record["conclusions"], *record["limits"]):
        log.info("ablation: %s", line)


def _figures(variants: Mapping[str, Any]) -> dict[str, float]:
    keys = ("reward", "reward_greedy", "evidence_f1")
    return {f"{name}.{key}": row[key]["mean"] for name, row in variants.items() for key in keys if row[key]}


def main(arguments: Sequence[str]) -> None:
    match arguments:
        case ["report"]:
            stage_main("ablation", report)
        case ["cell", variant, seed] if variant in get_args(Variant) and seed.isdigit():
            stage_main_in_cell(variant, int(seed))  # type: ignore[arg-type]
        case _:
            print(__doc__, file=sys.stderr)
            raise SystemExit(2)


def stage_main_in_cell(variant: Variant, seed: int) -> None:
    """Prepare the cell and work in its folder; a finished one is left as it is."""
    try:
        folder = prepare_cell(load_params(), variant, seed)
    except (StageError, ValueError) as error:
        print(f"ablation: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    if (folder / RESULT).exists():
        return tidy(folder)
    for variable in ("RLM_TRACKING_URI", "RLM_PARENT_RUN_ID"):  # a cell keeps its curves in its own folder
        os.environ.pop(variable, None)
    os.chdir(folder)
    stage_main("grpo", run_cell)
    return tidy(Path())


if __name__ == "__main__":
    main(sys.argv[1:])
