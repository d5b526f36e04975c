"""The judge that gives a tree its reward."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from rlm_core.params.endpoint import EndpointParams
from rlm_core.params.section import Section


class JudgeParams(Section):
    kind: Literal["lexical", "rubric"] = "lexical"
    """`lexical` is deterministic and needs no model; `rubric` asks an endpoint for precision and recall, 1 to 10."""
    endpoint: EndpointParams | None = None
    """For `rubric`: the model that judges; use another family than the policy's."""
    panel: tuple[EndpointParams, ...] = ()
    """For `rubric`: further judges with the same rubric; with any, the verdict is the panel's."""
    panel_rule: Literal["mean", "majority"] = "mean"
    """`mean` averages each criterion and fails when any judge does; `majority` takes the score that more than half of
    the judges reach (their lower median), and failed judges stay in the count."""
    criteria: Path | None = None
    """For `rubric`: a TOML file of further criteria, and weights; null judges precision and recall alone."""
    guard: int | None = Field(None, ge=0, le=9)
    """For `rubric`: points by which precision and recall may exceed the letters' own shares: a check that can lower a
    verdict and never raise it. Null does not bound them."""
    check: Literal["require", "report"] = "require"
    """For `rubric`, before the judge is used: `require` stops a stage whose judge fails its reliability check (see
    `rlm-forge judge check`), `report` goes on, and says so in the stage's report."""

    @model_validator(mode="after")
    def _rubric_has_its_endpoint(self) -> Self:
        if self.kind == "rubric" and self.endpoint is None:
            raise ValueError("judge.kind is 'rubric' but judge.endpoint is not set: give an endpoint, or use 'lexical'")
        names = [e.model for e in self.endpoints]
        if len(self.endpoints) > 1 and len({(e.base_url, e.model) for e in self.endpoints}) < len(names):
            raise ValueError(f"judge.panel names a judge twice ({', '.join(names)}): its vote would count double")
        return self

    @property
    def endpoints(self) -> tuple[EndpointParams, ...]:
        """All judges of a rubric: the endpoint, then the panel."""
        return (self.endpoint, *self.panel) if self.endpoint else ()
