"""Who teaches, and how many rollouts."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from rlm_core.params.endpoint import EndpointParams
from rlm_core.params.section import Section, Share


class TeachParams(Section):
    policy: Literal["expert", "endpoint"] = "expert"
    """`expert` is a scripted policy that needs no model; `endpoint` any OpenAI-compatible one."""
    endpoint: EndpointParams | None = None
    """For `endpoint`: the teacher model."""
    noise: Share = 0.15
    """Expert only: share of turns with a mistake (wrong keyword, code error, wrong passage), so that filters have work."""
    rollouts_per_query: int = Field(2, ge=1)
    """Teacher trees a query. Cost grows linearly; more give `distill` more to keep."""
    rollouts_per_multi_query: int | None = Field(None, ge=1)
    """Teacher trees a multi-paper query, which are fewer and harder; null takes `rollouts_per_query`."""
    max_queries: int | None = Field(None, ge=1)
    """Queries taught, drawn deterministically; null takes all of train and val."""
    concurrency: int = Field(16, ge=1)
    """Trees at once."""
    temperature: float = Field(0.7, ge=0)
    """Sampling temperature of an endpoint teacher."""
    max_cost: float | None = Field(None, gt=0)
    """Endpoint only: stop when the cost, projected from the first finished trees, passes this; what is finished stays.
    Needs the endpoint's prices. Null does not limit."""

    @model_validator(mode="after")
    def _policy_has_its_endpoint(self) -> Self:
        if self.policy == "endpoint" and self.endpoint is None:
            raise ValueError("teach.policy is 'endpoint' but teach.endpoint is not set")
        if self.max_cost is not None and (self.endpoint is None or self.endpoint.cost(1, 1) is None):
            raise ValueError(
                "teach.max_cost needs teach.endpoint.price_in_per_million and price_out_per_million: nothing else tells cost"
            )
        return self
