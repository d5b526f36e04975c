"""A sandboxed Python session for model-written code: `Repl.open(...)`, `execute(code)`."""

from rlm_core.repl.forkserver import probe
from rlm_core.repl.handover import shared_context
from rlm_core.repl.limits import ReplLimits
from rlm_core.repl.repl import Repl, SubcallError, SubcallHandler
from rlm_core.repl.result import ExecutionResult
from rlm_core.repl.sandbox.report import Layer, SandboxReport, SandboxUnavailable

__all__ = [
    "ExecutionResult",
    "Layer",
    "Repl",
    "ReplLimits",
    "SandboxReport",
    "SandboxUnavailable",
    "SubcallError",
    "SubcallHandler",
    "probe",
    "shared_context",
]
