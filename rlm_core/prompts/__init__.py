"""What a policy is shown: the opening messages of a node, the turn cues, and the exact messages at any turn.

Every sentence about a tool comes from the tool's signature and docstring, every number from the config. A policy's prompts
are a function of its task, its style and its budget; `messages_at` rebuilds them from a stored rollout.
"""

from rlm_core.prompts.feedback import cue, last_cue
from rlm_core.prompts.functions import Function, describe, functions_for
from rlm_core.prompts.messages import build_messages, messages_at
from rlm_core.prompts.style import Allowance, PromptStyle, Task, Variant
from rlm_core.prompts.templates import opening

__all__ = [
    "Allowance",
    "Function",
    "PromptStyle",
    "Task",
    "Variant",
    "build_messages",
    "cue",
    "describe",
    "functions_for",
    "last_cue",
    "messages_at",
    "opening",
]
