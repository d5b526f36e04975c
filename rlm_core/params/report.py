"""Where results are shown: the report and MLflow."""

from __future__ import annotations

from pydantic import Field

from rlm_core.params.section import Section


class ReportParams(Section):
    rollouts_shown: int = Field(24, ge=0)
    """Rollout trees drawn in the report, those of one question side by side; 0 draws none."""


class MlflowParams(Section):
    tracking_uri: str | None = None
    """Null: SQLite under the project folder, by absolute path; or the address of a server."""
    experiment: str = "rlm-forge"
    """Name of the one experiment that holds all runs."""
    traces_per_step: int = Field(8, ge=0)
    """Rollout trees logged as traces with judge feedback, a step."""
    system_metrics_seconds: float = Field(10.0, ge=0)
    """Between two samples of the machine's load, memory, disk and GPUs as curves of a stage's run; 0 takes none."""
