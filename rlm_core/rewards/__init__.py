"""What an answer is worth: evidence F1 and the judges."""

from rlm_core.rewards.answers import answer_passages
from rlm_core.rewards.criteria import PRECISION_RECALL, Criterion, load_criteria
from rlm_core.rewards.judges import Item, Judge, JudgeError, JudgeOutOfReach, LexicalJudge, judge_all, make_judge
from rlm_core.rewards.overlap import PRF, evidence_f1
from rlm_core.rewards.panel import PanelJudge
from rlm_core.rewards.rubric import RubricJudge

__all__ = [
    "PRECISION_RECALL",
    "PRF",
    "Criterion",
    "Item",
    "Judge",
    "JudgeError",
    "JudgeOutOfReach",
    "LexicalJudge",
    "PanelJudge",
    "RubricJudge",
    "answer_passages",
    "evidence_f1",
    "judge_all",
    "load_criteria",
    "make_judge",
]
