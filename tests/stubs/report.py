"""What a report is made of, small and hostile: text that would break a page which does not escape it."""

from __future__ import annotations

from typing import Any

from rlm_core.evaluation.report import ReportData
from rlm_core.params import Params
from rlm_core.records import ErrorClass, Judgement, Rollout, Status, Turn
from rlm_core.rewards.reliability import Answered, Case, Limits, summarise

HOSTILE = "</pre></details><script>alert(1)</script><img src=x onerror=alert(2)>{{ 7 * 7 }}&amp;"
GOLD = "The drought of nineteen twelve emptied the northern reservoirs."


def arm(**changes: Any) -> dict[str, Any]:
    return {
        "judge_mean": 0.5, "judge_ci95": [0.4, 0.6], "f1_mean": 0.45, "macro_f1_mean": 0.35, "format_success": 1.0,
        "pass_at_k": 0.5, "seconds_mean": 2.0, "tokens_mean": 900.0, "n": 3, "k": 1, "samples": 3, "unscored": 0,
        "model": "models/grpo",
        "by_tier": {"1": {"n": 3, "judge_mean": 0.5, "judge_ci95": [0.4, 0.6], "f1_mean": 0.4}},
        "by_kind": {k: {"n": 3, "judge_mean": 0.5, "judge_ci95": [0.4, 0.6], "f1_mean": 0.4} for k in ("multi", "single")},
        "prompt_tokens_mean": 800.0, "completion_tokens_mean": 100.0, "cost_mean": None, "cost_total": None,
        "failures": {"out_of_turns": {"count": 2, "example": "q1.0", "query_id": "q1", "detail": HOSTILE}},
        "turn_errors": {"code": 3}, **changes,
    }  # fmt: skip


def row(name: str, rollout: Rollout) -> dict[str, Any]:
    return {
        "arm": name, "query_id": "q1", "why": f"largest gain {HOSTILE}", "kind": "single", "tier": "1", "question": HOSTILE,
        "f1": 0.5, "cause": "none",
        "gold": [{"paper_id": "p1", "text": GOLD}], "judgement": {"reward": 0.75, "rationale": HOSTILE},
        "rollout": rollout.to_dict(),
    }  # fmt: skip


def tree() -> Rollout:
    child = Rollout("q1.0.0", parent_turn=0, question=f"child {HOSTILE}", answer=[GOLD], turns=(Turn(text="FINAL(x)"),))
    lost = Rollout("q1.0.1", question="orphan", status=Status.FAILED, failure=HOSTILE)
    turns = (Turn(text=HOSTILE, observation=HOSTILE, error=ErrorClass.CODE), Turn(text="```python\nFINAL(x)\n```"))
    return Rollout("q1.0", turns=turns, children=(child, lost), answer=[f"It says: {GOLD}", HOSTILE])


def data(**changes: Any) -> ReportData:
    evaluation = {
        "judge": "lexical", "n": 3,
        "arms": {"base": arm(judge_mean=0.1, judge_ci95=None), "grpo": arm(), "bm25_topk": arm(tokens_mean=0.0)},
        "comparisons": [{"a": "grpo", "b": "base", "metric": "judge", "difference": 0.4, "ci95": [0.2, 0.6], "p_value": 0.01,
                         "p_holm": 0.02, "effect_size": 1.5, "wins": 3, "losses": 0, "ties": 0, "n": 3}],
        "notes": [HOSTILE], "provenance": {"writers": ["extractive"], "versions": {"python": "3.11"}},
    }  # fmt: skip
    fields = {
        "evaluation": evaluation,
        "params": Params(),
        "rollouts": [row("base", tree()), row("grpo", tree())],
        "training": {"steps": [{"step": 1, "reward_mean": 0.4, "extra": "text"}, {"step": 2, "reward_mean": 0.6}]},
        "sft": {"steps": [{"step": 1, "loss": 2.0}, {"step": 2, "loss": 1.0}]},
        "counts": {"papers": {"papers": 24, "names": [HOSTILE]}, "ocr": None},
        "made": {"commit": "abc"},
    }
    return ReportData(**{**fields, **changes})


def judge_report() -> dict[str, Any]:
    """Of a judge with a hostile name that gives 9 and 4 to everything: gold, half of it, nothing, and one without a verdict."""
    deserved = {
        "gold": (10, 10),
        "half": (10, 5),
        "empty": (1, 1),
        "injection_plea": (1, 1),
        "paraphrase": (None, None),
    }
    cases = [Case(q, kind, "?", (GOLD,), (GOLD,), *scores) for q in ("a", "b") for kind, scores in deserved.items()]
    answered = [Answered(case, (Judgement(9, 4, 0.65),)) for case in cases[:-1]] + [Answered(cases[-1], (None,))]
    cost = {"requests": 10, "retries": 1, "prompt_tokens": 12000, "completion_tokens": 400, "cost": None}
    return {"judge": f"rubric:{HOSTILE}", "version": 2, "repeats": 1, **summarise(answered, Limits()), "cost": cost}
