"""Which trees and nodes are kept, by hand-made trees that each break one rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from rlm_core.distill.filters import judge_teacher, keep_nodes, keep_trees
from rlm_core.params import DistillParams
from rlm_core.records import ErrorClass, Judgement, Query, Rollout, Status
from rlm_core.rewards import JudgeError, LexicalJudge

Make = Callable[..., Rollout]
LOOK = "```python\nprint(search('gold'))\n```"
ANSWER = "```python\nFINAL(['the gold passage of the paper'])\n```"
GOOD = Judgement(10, 10, 1.0)


def reason(tree: Rollout, verdict: Judgement | None = GOOD, **params: object) -> str:
    kept, dropped = keep_trees([tree], [verdict], DistillParams.model_validate(params))
    names = [name for name, count in dropped.items() if count]
    assert len(names) + len(kept) == 1
    return names[0] if names else "kept"


def test_each_filter_drops_its_own(make_teacher: Make):
    good = make_teacher(LOOK, ANSWER)
    assert reason(good) == "kept"
    assert reason(replace(good, status=Status.FAILED), None) == "failed"
    assert reason(good, None) == "unjudged"
    assert reason(good, Judgement(1, 1, 0.25)) == "low_score"  # the reward must exceed min_reward, .25
    assert reason(good, Judgement(1, 1, 0.25), min_reward=0.2) == "kept"
    assert reason(make_teacher(ANSWER)) == "single_turn"
    assert reason(replace(good, status=Status.OUT_OF_TURNS)) == "no_answer"
    assert reason(replace(good, status=Status.OUT_OF_BUDGET)) == "no_answer"
    assert reason(make_teacher((LOOK, ErrorClass.CODE), ANSWER)) == "nothing_read"
    stumbled = make_teacher((LOOK, ErrorClass.CODE), LOOK, ANSWER)
    assert reason(stumbled) == "kept"
    assert reason(stumbled, repl_errors="tree") == "tree_with_repl_error"
    assert reason(good, repl_errors="tree") == "kept"
    in_a_child = replace(good, children=(make_teacher((LOOK, ErrorClass.LIMIT), LOOK, ANSWER, id="c", depth=1),))
    assert reason(in_a_child, repl_errors="tree") == "tree_with_repl_error"


def test_the_first_filter_that_fits_counts(make_teacher: Make):
    # one turn and a low score: counted once, as the score comes first
    assert reason(make_teacher(ANSWER), Judgement(1, 1, 0.1)) == "low_score"


def test_children_that_did_not_answer_go_with_all_below_them(make_teacher: Make, query: Query):
    lost = make_teacher(LOOK, id="c0", depth=1, status=Status.OUT_OF_TURNS,
                        children=(make_teacher(LOOK, ANSWER, id="c0.0", depth=2),))  # fmt: skip
    fine = make_teacher(LOOK, ANSWER, id="c1", depth=1)
    blind = make_teacher(ANSWER, id="c2", depth=1)
    tree = make_teacher(LOOK, ANSWER, children=(lost, fine, blind))
    kept, dropped = keep_nodes(tree, query, DistillParams(children="all"))
    assert [n.id for n in kept] == ["q1.0", "c1"]
    assert dropped == {"child_no_answer": 2, "child_nothing_read": 1, "child_not_best": 0}


def test_best_keeps_the_child_with_most_evidence(make_teacher: Make, query: Query):
    poor = make_teacher(LOOK, ANSWER, id="poor", depth=1, answer=["nothing of that kind here"])
    rich = make_teacher(LOOK, ANSWER, id="rich", depth=1)
    tree = make_teacher(LOOK, ANSWER, children=(poor, rich))
    kept, dropped = keep_nodes(tree, query, DistillParams(children="best"))
    assert [n.id for n in kept] == ["q1.0", "rich"] and dropped["child_not_best"] == 1
    assert len(keep_nodes(tree, query, DistillParams(children="all"))[0]) == 3


async def test_failed_trees_are_not_shown_to_the_judge(make_teacher: Make, query: Query):
    good = make_teacher(LOOK, ANSWER)
    failed = make_teacher(LOOK, id="q1.1", status=Status.FAILED, answer=None)
    verdicts = await judge_teacher(LexicalJudge(), [failed, good], {"q1": query})
    assert verdicts[0] is None and verdicts[1] is not None and verdicts[1].reward == pytest.approx(1.0)

    class Broken(LexicalJudge):
        async def score(self, question: str, predicted: object, gold: object) -> Judgement:
            raise JudgeError("no")

    assert await judge_teacher(Broken(), [good], {"q1": query}) == [None]
