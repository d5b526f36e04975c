"""Which teacher trees and nodes are worth imitating. Each filter has a name, an order and a count.

Order, after the two recipes that the project follows: first what scored nothing, then what never went beyond one turn,
then trees with a REPL error (where `distill.repl_errors` drops whole trees), what ran out of budget, answers given without
having read anything; of kept trees then turns with a REPL error, over-long ones, cut ones (`writing.distil`). All of them
read what was recorded when it happened (scores, statuses, error classes), never the text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rlm_core.distill.repair import mend_turn
from rlm_core.params import DistillParams
from rlm_core.records import ErrorClass, Judgement, Query, Rollout, Status
from rlm_core.rewards import Judge, answer_passages, evidence_f1, judge_all

JUDGE_CONCURRENCY = 32


@dataclass(frozen=True, slots=True)
class TreeFilter:
    name: str
    description: str
    drops: Callable[[Rollout, Judgement | None, DistillParams], bool]


TREE_FILTERS: tuple[TreeFilter, ...] = (
    TreeFilter("failed", "the harness failed: nothing to learn and nothing to score", lambda t, j, p: _failed(t)),
    TreeFilter("unjudged", "the judge gave no verdict", lambda t, j, p: j is None),
    TreeFilter(
        "low_score",
        "judge reward not above distill.min_reward",
        lambda t, j, p: j is not None and j.reward <= p.min_reward,
    ),
    TreeFilter("single_turn", "answered in its first turn", lambda t, j, p: len(t.turns) < 2),
    TreeFilter(
        "tree_with_repl_error",
        "a turn's code raised, beyond repair (only with distill.repl_errors: tree)",
        lambda t, j, p: p.repl_errors == "tree" and has_repl_error(t),
    ),
    TreeFilter("no_answer", "out of turns, tokens or time before an answer", lambda t, j, p: not _answered(t)),
    TreeFilter("nothing_read", "answered without a step that worked before it", lambda t, j, p: not has_read(t)),
)


def keep_trees(
    trees: Sequence[Rollout], judgements: Sequence[Judgement | None], params: DistillParams
) -> tuple[list[tuple[Rollout, Judgement]], dict[str, int]]:
    """The trees that pass every filter, with their verdicts, and how many each filter dropped (the first that fits)."""
    dropped = {f.name: 0 for f in TREE_FILTERS}
    kept: list[tuple[Rollout, Judgement]] = []
    for tree, judgement in zip(trees, judgements, strict=True):
        reason = next((f.name for f in TREE_FILTERS if f.drops(tree, judgement, params)), None)
        if reason is not None:
            dropped[reason] += 1
        else:
            assert judgement is not None
            kept.append((tree, judgement))
    return kept, dropped


def keep_nodes(tree: Rollout, query: Query, params: DistillParams) -> tuple[list[Rollout], dict[str, int]]:
    """The nodes of a kept tree to learn from: the root, and its children as `distill.children` says, at any depth.

    A child that did not answer, or answered without having read, is dropped with all below it. `best` keeps, of
    siblings, the one whose answer holds most evidence (the first of equals).
    """
    dropped = {"child_no_answer": 0, "child_nothing_read": 0, "child_not_best": 0}
    kept: list[Rollout] = []

    def walk(node: Rollout) -> None:
        kept.append(node)
        good = []
        for child in node.children:
            if not _answered(child):
                dropped["child_no_answer"] += _size(child)
            elif not has_read(child):
                dropped["child_nothing_read"] += _size(child)
            else:
                good.append(child)
        if params.children == "best" and len(good) > 1:
            best = max(good, key=lambda c: evidence_f1(answer_passages(c.answer), query.gold).f1)
            dropped["child_not_best"] += sum(_size(c) for c in good if c is not best)
            good = [best]
        for child in good:
            walk(child)

    walk(tree)
    return kept, dropped


def has_read(node: Rollout) -> bool:
    """Whether a turn that worked came before the answer, or the answering turn itself asked children."""
    before = node.turns[:-1]
    return any(turn.error is ErrorClass.NONE for turn in before) or bool(node.children)


def has_repl_error(tree: Rollout) -> bool:
    """Whether any turn of any node ran into an error of the REPL that no repair of a template undoes."""
    return any(
        mend_turn(node, index).reason == "repl_error" for node in tree.walk() for index in range(len(node.turns))
    )


async def judge_teacher(judge: Judge, trees: Sequence[Rollout], queries: Mapping[str, Query]) -> list[Judgement | None]:
    """A verdict a tree, in order; None for trees that the harness failed and where the judge failed."""
    asked = [i for i, tree in enumerate(trees) if not _failed(tree)]
    items = [(queries[trees[i].query_id].question, trees[i].answer, queries[trees[i].query_id].gold) for i in asked]
    verdicts: list[Judgement | None] = [None] * len(trees)
    for index, verdict in zip(asked, await judge_all(judge, items, JUDGE_CONCURRENCY), strict=True):
        verdicts[index] = verdict
    return verdicts


def count_up(total: dict[str, int], more: Mapping[str, int] | Iterable[str]) -> None:
    """Add counts (or names, one each) to `total`."""
    pairs = more.items() if isinstance(more, Mapping) else ((name, 1) for name in more)
    for name, count in pairs:
        total[name] = total.get(name, 0) + count


def _failed(tree: Rollout) -> bool:
    return tree.status in (Status.FAILED, Status.CANCELLED)


def _answered(node: Rollout) -> bool:
    return node.status is Status.ANSWERED and bool(node.turns)


def _size(node: Rollout) -> int:
    return sum(1 for _ in node.walk())
