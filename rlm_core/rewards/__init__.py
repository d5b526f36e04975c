"""What an answer is worth: evidence F1 and the judges."""

from rlm_core.rewards.answers import answer_passages
from rlm_core.rewards.judges import Item, Judge, JudgeError, LexicalJudge, judge_all, make_judge
from rlm_core.rewards.overlap import PRF, evidence_f1
from rlm_core.rewards.rubric import RubricJudge

__all__ = [
    "PRF",
    "Item",
    "Judge",
    "JudgeError",
    "LexicalJudge",
    "RubricJudge",
    "answer_passages",
    "evidence_f1",
    "judge_all",
    "make_judge",
]
