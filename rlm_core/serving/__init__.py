"""A trained RLM over a library of papers as an OpenAI-compatible endpoint; answers carry their evidence."""

from rlm_core.serving.app import make_app
from rlm_core.serving.service import RlmService

__all__ = ["RlmService", "make_app"]
