"""What all sections of params share."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Share = Annotated[float, Field(ge=0, le=1)]
Temperature = Annotated[float, Field(ge=0)]


class Section(BaseModel):
    """Base of all sections: unknown keys are errors, numbers are finite, values are frozen."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True, protected_namespaces=()
    )
