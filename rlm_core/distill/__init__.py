"""Teacher rollouts -> SFT samples: filters, repair of template mistakes, one sample a turn, and a report of all of it."""

from rlm_core.distill.filters import TreeFilter, judge_teacher, keep_trees
from rlm_core.distill.repair import mend_turn
from rlm_core.distill.samples import SftRow, turn_rows
from rlm_core.distill.writing import Distilled, distil, split_rows

__all__ = [
    "Distilled",
    "SftRow",
    "TreeFilter",
    "distil",
    "judge_teacher",
    "keep_trees",
    "mend_turn",
    "split_rows",
    "turn_rows",
]
