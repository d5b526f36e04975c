"""The command and the environment of a vLLM server, for the vLLM that is installed here."""

from __future__ import annotations

import contextlib
import importlib.metadata
import logging
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rlm_core.policies.models import Dtype
from rlm_core.policies.served_model import VllmServerError
from rlm_core.policies.vllm_main import PARENT_VARIABLE

log = logging.getLogger("rlm.serve")


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmCommand:
    """What a server is started with; `extra_args` go to vLLM as they are."""

    model: Path
    served_name: str
    max_model_len: int
    max_num_seqs: int
    kv_cache_gib: float
    """Used on a CPU only; on a GPU vLLM takes what is free."""
    dtype: Dtype
    eager: bool
    extra_args: Sequence[str] = ()

    def on_port(self, port: int) -> tuple[list[str], dict[str, str]]:
        """The command, and the environment of a child of this process. Raises `VllmServerError` where no vLLM is
        installed."""
        command = [
            sys.executable, "-m", "rlm_core.policies.vllm_main",
            "--model", str(self.model),
            "--served-model-name", self.served_name,
            "--host", "127.0.0.1",
            "--port", str(port),
            "--dtype", self.dtype,
            "--max-model-len", str(self.max_model_len),
            "--max-num-seqs", str(self.max_num_seqs),
            "--logprobs-mode", "processed_logprobs",
            "--enable-prefix-caching",
            "--disable-uvicorn-access-log",
            *(["--enforce-eager"] if self.eager else []),
            *self.extra_args,
        ]  # fmt: skip
        environment = {
            **os.environ,
            PARENT_VARIABLE: str(os.getpid()),
            "VLLM_SERVER_DEV_MODE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_OFFLINE": "1",
            "TOKENIZERS_PARALLELISM": "false",
        }
        if _on_cpu():
            if not self.eager and not shutil.which(os.environ.get("CXX", "g++")):
                log.warning("no C++ compiler (g++): serving without compilation, at a third of the speed; install g++")
                command.append("--enforce-eager")
            command += ["--kv-cache-memory-bytes", str(int(self.kv_cache_gib * 2**30))]
            # vLLM 0.32 on a CPU dies when the prefill of a request with a seed is split over two steps
            # ("CPU Generator does not use offset"): never split one
            command += ["--no-enable-chunked-prefill", "--max-num-batched-tokens", str(max(2048, self.max_model_len))]
            environment["VLLM_CPU_NUM_OF_RESERVED_CPU"] = "0"
            # vLLM 0.32 cannot load on a CPU what its AOT cache holds, and compiles anew each time; without it inductor's
            # own cache is used: 10 s instead of a minute at the second start
            environment.setdefault("VLLM_USE_AOT_COMPILE", "0")
            environment.setdefault("TORCHINDUCTOR_CACHE_DIR", str(Path.home() / ".cache" / "vllm" / "inductor"))
            environment.pop("VLLM_CPU_KVCACHE_SPACE", None)
        return command, environment


def _on_cpu() -> bool:
    """Whether the installed vLLM is a CPU build (distribution `vllm-cpu`, or a version that ends in +cpu)."""
    for name in ("vllm-cpu", "vllm"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return name == "vllm-cpu" or "+cpu" in importlib.metadata.version(name)
    raise VllmServerError("vLLM is not installed; run `make setup`, or set serve.url to a running server")
