"""Entry point of the vLLM server process: like `python -m vllm.entrypoints.openai.api_server`, but no process of it
outlives its parent.

The kernel is asked for SIGKILL at the parent's death (PR_SET_PDEATHSIG). vLLM starts an engine process and that one
worker processes; when the server is killed with -9, they would live on and hold memory and cores. Processes that Python
spawns import this module again as their main module, and forked ones run the hook, so all of them make the same request.

The signal comes when the *thread* that started the process ends: start the server from a thread that lives on.
Imports nothing heavy at the top: it runs in every one of those processes.
"""

import ctypes
import os
import runpy
import signal
import sys

PARENT_VARIABLE = "RLM_SERVER_PARENT_PID"
_PR_SET_PDEATHSIG = 1


def die_with_parent(expected_parent: int | None) -> None:
    """Ask for SIGKILL at the parent's death; end at once if `expected_parent` is dead already."""
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if expected_parent is not None and os.getppid() != expected_parent:
        os._exit(1)


def bind(module_name: str) -> None:
    """Called by a main module at import, with its `__name__`: binds it, and all that it forks or spawns."""
    if module_name not in ("__main__", "__mp_main__"):
        return
    started_by = os.environ.get(PARENT_VARIABLE) if module_name == "__main__" else None
    die_with_parent(int(started_by) if started_by else None)
    os.register_at_fork(after_in_child=lambda: die_with_parent(None))


bind(__name__)

if __name__ == "__main__":
    runpy.run_module("vllm.entrypoints.openai.api_server", run_name="__main__")
