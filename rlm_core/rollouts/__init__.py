"""The recursive loop and its scheduling: `await run_rollout(query, policy, config) -> Rollout`.

`loop` runs a node, `subcalls` its children, `budget` says what they may spend, `scheduler` runs many trees, `store` keeps them,
`show` draws them.
"""

from rlm_core.prompts import messages_at
from rlm_core.records import Rollout
from rlm_core.rollouts.budget import Budget, BudgetSpent
from rlm_core.rollouts.config import RolloutConfig
from rlm_core.rollouts.events import Event, Observer
from rlm_core.rollouts.loop import run_rollout
from rlm_core.rollouts.node import failures
from rlm_core.rollouts.scheduler import Job, run_rollouts
from rlm_core.rollouts.store import RolloutStore, read_rollouts, rollout_key
from rlm_core.rollouts.tree import derive_seed

__all__ = [
    "Budget",
    "BudgetSpent",
    "Event",
    "Job",
    "Observer",
    "Rollout",
    "RolloutConfig",
    "RolloutStore",
    "derive_seed",
    "failures",
    "messages_at",
    "read_rollouts",
    "rollout_key",
    "run_rollout",
    "run_rollouts",
]
