"""All of distillation: filtered, mended, rendered rows, and the figures that say what happened to the teacher's turns."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any

from rlm_core.distill.filters import TREE_FILTERS, count_up, keep_nodes, keep_trees
from rlm_core.distill.repair import FINAL_KINDS, FINAL_VAR_KINDS, mend_turn
from rlm_core.distill.samples import SftRow, prefix_breaks, turn_row
from rlm_core.params import DistillParams
from rlm_core.policies.rendering import ChatRenderer
from rlm_core.prompts import messages_at
from rlm_core.records import Judgement, Query, Rollout

VAL_SHARE = 0.05
"""Of the training queries, held out of SFT when the teacher saw no validation query."""


@dataclass
class Distilled:
    """The rows, in the order of trees, nodes and turns, and the report of `reports/distill.json`."""

    rows: list[SftRow] = field(default_factory=list)
    report: dict[str, Any] = field(default_factory=dict)
    kept: list[Rollout] = field(default_factory=list)
    """The trees that passed all tree filters."""


def distil(
    trees: Sequence[Rollout],
    judgements: Sequence[Judgement | None],
    queries: Mapping[str, Query],
    renderer: ChatRenderer,
    params: DistillParams,
) -> Distilled:
    """Filter trees, then nodes, then mend and filter turns, then render and drop rows that are too long or there already."""
    kept, tree_drops = keep_trees(trees, judgements, params)
    node_drops: dict[str, int] = {}
    turn_drops = dict.fromkeys(("repl_error", "over_length", "length_cut", "format_error", "duplicate"), 0)
    repairs: dict[str, int] = {}
    rows: list[SftRow] = []
    seen: set[tuple[tuple[int, ...], tuple[int, ...]]] = set()
    num_nodes = num_turns = final_slips = final_var_slips = mended_turns = breaks = 0
    for tree, judgement in kept:
        nodes, dropped = keep_nodes(tree, queries[tree.query_id], params)
        count_up(node_drops, dropped)
        for node in nodes:
            num_nodes += 1
            node_rows: list[SftRow] = []
            for index in range(len(node.turns)):
                num_turns += 1
                mended = mend_turn(node, index)
                if mended.reason == "repl_error":
                    turn_drops[mended.reason] += 1
                    continue
                row = turn_row(node, index, mended.text, renderer, reward=judgement.reward, query_id=tree.query_id)
                if row.num_tokens > params.max_row_tokens or _too_many_chars(node, index, mended.text, params):
                    turn_drops["over_length"] += 1
                    continue
                if mended.reason is not None:
                    turn_drops[mended.reason] += 1
                    continue
                count_up(repairs, mended.kinds)
                mended_turns += bool(mended.kinds)
                final_slips += bool(FINAL_KINDS & set(mended.kinds))
                final_var_slips += bool(FINAL_VAR_KINDS & set(mended.kinds))
                if (row.prompt_ids, row.completion_ids) in seen:
                    turn_drops["duplicate"] += 1
                else:
                    seen.add((row.prompt_ids, row.completion_ids))
                    node_rows.append(row)
            breaks += prefix_breaks(node_rows)
            rows += node_rows
    report = {
        "trees": {"read": len(trees), "kept": len(kept)},
        "nodes": {"of_kept_trees": num_nodes + sum(node_drops.values()), "kept": num_nodes},
        "turns": {"of_kept_nodes": num_turns, "kept": len(rows)},
        "filters": _filter_rows(len(trees), tree_drops, node_drops, turn_drops),
        "repair": {
            "turns_mended": mended_turns,
            "share_mended": _share(mended_turns, num_turns),
            "share_final_slips": _share(final_slips, num_turns),
            "share_final_var_slips": _share(final_var_slips, num_turns),
            "kinds": repairs,
        },
        "rows": {
            "root": sum(r.role == "root" for r in rows),
            "child": sum(r.role == "child" for r in rows),
            "tokens": sum(r.num_tokens for r in rows),
            "completion_tokens": sum(len(r.completion_ids) for r in rows),
            "longest": max((r.num_tokens for r in rows), default=0),
            "prefix_breaks": breaks,
        },
        "before": _statistics(trees, judgements),
        "after": _statistics([t for t, _ in kept], [j for _, j in kept]),
    }
    return Distilled(rows, report, kept=[tree for tree, _ in kept])


def _too_many_chars(node: Rollout, index: int, text: str, params: DistillParams) -> bool:
    """Whether what turn `index` read and says is longer than `distill.max_row_chars`."""
    if params.max_row_chars is None:
        return False
    return sum(len(m.content) for m in messages_at(node, index)) + len(text) > params.max_row_chars


def split_rows(rows: Sequence[SftRow], val_ids: set[str], seed: int) -> tuple[list[SftRow], list[SftRow]]:
    """(training rows, validation rows), by query: a query's rows are never in both.

    Rows of validation queries (`val_ids`) are the validation rows. If there are none, `VAL_SHARE` of the queries are held
    out, at least one of two or more, drawn by a hash of seed and id.
    """
    found = sorted({row.query_id for row in rows})
    held = set(found) & val_ids
    if not held and len(found) > 1:
        ordered = sorted(found, key=lambda q: hashlib.sha256(f"{seed}.{q}".encode()).digest())
        held = set(ordered[: max(1, round(VAL_SHARE * len(found)))])
    return [r for r in rows if r.query_id not in held], [r for r in rows if r.query_id in held]


def _filter_rows(
    num_trees: int, trees: Mapping[str, int], nodes: Mapping[str, int], turns: Mapping[str, int]
) -> list[dict[str, Any]]:
    """The filters in their order: what each looked at and dropped."""
    rows = []
    left = num_trees
    for tree_filter in TREE_FILTERS:
        dropped = trees[tree_filter.name]
        left -= dropped
        what = {"unit": "tree", "name": tree_filter.name, "description": tree_filter.description}
        rows.append({**what, "dropped": dropped, "left": left})
    rows += [{"unit": "node", "name": name, "dropped": count} for name, count in nodes.items()]
    rows += [{"unit": "turn", "name": name, "dropped": count} for name, count in turns.items()]
    return rows


def _statistics(trees: Sequence[Rollout], judgements: Sequence[Judgement | None]) -> dict[str, Any]:
    """What a set of trees looks like: the background text's figures before and after filtering."""
    turns = [t for tree in trees for node in tree.walk() for t in node.turns]
    errors: dict[str, int] = {}
    count_up(errors, (str(t.error) for t in turns))
    rewards = [j.reward for j in judgements if j is not None]
    return {
        "trees": len(trees),
        "turns_a_tree": _mean([len(tree.turns) for tree in trees]),
        "turns_a_tree_median": float(median([len(t.turns) for t in trees])) if trees else 0.0,
        "children_a_tree": _mean([sum(1 for _ in tree.walk()) - 1 for tree in trees]),
        "characters_a_turn": _mean([len(t.text) for t in turns]),
        "share_of_turns_with_error": _share(sum(n for e, n in errors.items() if e != "none"), len(turns)),
        "turn_errors": errors,
        "reward": _mean(rewards),
        "reward_zero_share": _share(sum(r <= 0.1 for r in rewards), len(rewards)),
    }


def _mean(values: Sequence[float]) -> float:
    return fmean(values) if values else 0.0


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
