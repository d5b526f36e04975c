"""Who acts: a vLLM server, transformers, an OpenAI-compatible endpoint, or a scripted expert.

`await policy.act(messages, sampling) -> Action`, the same for all. Names load their module on first use, so that
importing this package pulls in neither torch nor transformers nor vLLM.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from rlm_core.policies.base import Action, Message, Policy, PolicyError, PromptTooLong, Role, Sampling, as_messages

if TYPE_CHECKING:
    from rlm_core.policies.expert import ExpertPolicy
    from rlm_core.policies.models import ModelError, check_model_folder, load_tokenizer, materialise_model, stop_ids
    from rlm_core.policies.openai import OpenAIPolicy
    from rlm_core.policies.rendering import ChatRenderer
    from rlm_core.policies.served_model import VllmServerError
    from rlm_core.policies.transformers import TransformersPolicy
    from rlm_core.policies.vllm import VllmPolicy
    from rlm_core.policies.vllm_fleet import VllmFleet
    from rlm_core.policies.vllm_server import VllmServer

_LAZY = {
    "ChatRenderer": "rendering",
    "ExpertPolicy": "expert",
    "ModelError": "models",
    "OpenAIPolicy": "openai",
    "TransformersPolicy": "transformers",
    "VllmFleet": "vllm_fleet",
    "VllmPolicy": "vllm",
    "VllmServer": "vllm_server",
    "VllmServerError": "served_model",
    "check_model_folder": "models",
    "load_tokenizer": "models",
    "materialise_model": "models",
    "stop_ids": "models",
}

__all__ = [
    "Action",
    "ChatRenderer",
    "ExpertPolicy",
    "Message",
    "ModelError",
    "OpenAIPolicy",
    "Policy",
    "PolicyError",
    "PromptTooLong",
    "Role",
    "Sampling",
    "TransformersPolicy",
    "VllmFleet",
    "VllmPolicy",
    "VllmServer",
    "VllmServerError",
    "as_messages",
    "check_model_folder",
    "load_tokenizer",
    "materialise_model",
    "stop_ids",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
