"""What importing the package pulls in."""

from __future__ import annotations

import subprocess
import sys

import pytest

import rlm_core.policies as policies

CHECK = """
import sys
import rlm_core.policies
from rlm_core.policies import Action, Message, OpenAIPolicy, VllmPolicy, VllmServer, ChatRenderer, TransformersPolicy
heavy = {"torch", "transformers", "vllm", "tokenizers"} & set(sys.modules)
assert not heavy, heavy
"""


def test_neither_torch_nor_transformers_nor_vllm():
    result = subprocess.run([sys.executable, "-c", CHECK], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_every_exported_name_is_there():
    assert all(getattr(policies, name) is not None for name in policies.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        policies.Nothing  # noqa: B018
