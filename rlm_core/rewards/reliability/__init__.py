"""Whether a judge may be trusted: labelled answers made from the project's own queries, and what the judge makes of them."""

from rlm_core.rewards.reliability.cases import Answered, Case, make_cases
from rlm_core.rewards.reliability.check import check_judge, check_params, spent_by
from rlm_core.rewards.reliability.figures import Limits, summarise

__all__ = ["Answered", "Case", "Limits", "check_judge", "check_params", "make_cases", "spent_by", "summarise"]
