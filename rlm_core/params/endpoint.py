"""A model behind an address: teacher, question writer, judge or arm."""

from __future__ import annotations

from pydantic import Field

from rlm_core.params.section import Section


class EndpointParams(Section):
    """An OpenAI-compatible chat endpoint."""

    base_url: str
    """E.g. https://host/v1."""
    model: str
    """Name of the model at that address."""
    api_key_env: str = "OPENAI_API_KEY"
    """Name of the environment variable that holds the key; the key itself is never written anywhere."""
    timeout_seconds: float = Field(120.0, gt=0)
    """Of one request."""
    max_retries: int = Field(5, ge=0)
    """Attempts after the first, on refused connections, 429, 5xx and unreadable replies, with doubling back-off."""
    max_concurrency: int = Field(8, ge=1)
    """Requests at once."""
    requests_per_minute: int | None = Field(None, ge=1)
    """Requests begin evenly spread at this rate at most, retries included; null does not limit them."""
    price_in_per_million: float | None = Field(None, ge=0)
    """Price of a million prompt tokens, in any currency; null is unknown, and costs are then reported as unknown."""
    price_out_per_million: float | None = Field(None, ge=0)
    """Price of a million completion tokens; null is unknown."""

    def cost(self, prompt_tokens: float, completion_tokens: float) -> float | None:
        """What these tokens cost; None where a price is unknown."""
        if self.price_in_per_million is None or self.price_out_per_million is None:
            return None
        return (prompt_tokens * self.price_in_per_million + completion_tokens * self.price_out_per_million) / 1e6
