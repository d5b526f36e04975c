"""Questions: who writes them, how many, how they are split."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from rlm_core.params.endpoint import EndpointParams
from rlm_core.params.section import Section, Share


class MrcrParams(Section):
    """Conversations with several equal requests, in place of papers: to train on short ones and test on long ones."""

    train_tokens: tuple[int, int] = (32_768, 65_536)
    """Shortest and longest conversation to train on, in tokens, about."""
    train_needles: int = Field(2, ge=2, le=8)
    """Equal requests in each; every one of them gives a question."""
    train_conversations: int = Field(64, ge=1)
    """Conversations to train on."""
    test_tokens: tuple[int, int] = (524_288, 1_048_576)
    """Shortest and longest conversation of validation and test."""
    test_needles: int = Field(8, ge=2, le=8)
    """Equal requests in each of them."""
    test_conversations: int = Field(2, ge=1)
    """Conversations of validation, and as many others of the test."""

    @model_validator(mode="after")
    def _ranges_are_in_order(self) -> Self:
        for name in ("train_tokens", "test_tokens"):
            low, high = getattr(self, name)
            if not 1000 <= low <= high:
                raise ValueError(
                    f"queries.mrcr.{name} must be two numbers, 1000 <= shortest <= longest, got {low}, {high}"
                )
        return self


class QueriesParams(Section):
    writer: Literal["extractive", "endpoint", "import", "mrcr", "longbench-pro"] = "extractive"
    """`extractive` needs no model: key phrases and templates over the OCR text; `endpoint` asks a model and verifies; `import`
    takes the questions of a file; `mrcr` makes long conversations and asks about them, and `longbench-pro` takes the documents
    and questions of that benchmark's file: papers are not read then."""
    mrcr: MrcrParams | None = None
    """For `mrcr`: lengths and numbers."""
    endpoint: EndpointParams | None = None
    """For `endpoint`: who writes and verifies the questions."""
    questions: Path = Path("questions/import.jsonl")
    """For `import`: a question a line, with its papers and evidence (docs/queries.md). For `longbench-pro`: its
    longbench_pro.json. It must exist for every writer: DVC watches it."""
    marks: Path = Path("questions/marks.jsonl")
    """What readers marked with `rlm-forge queries review`: a question marked bad is left out. It must exist likewise."""
    multi_per_group: int = Field(3, ge=0)
    """Multi-paper questions a group at most."""
    single_per_paper: int = Field(18, ge=0)
    """Single-paper questions a paper at most."""
    val_share: Share = 0.15
    """Share of groups for validation (at least one)."""
    test_share: Share = 0.3
    """Share of groups for the test (at least one)."""
    min_score: Share = 0.75
    """Alignment score under which evidence counts as not held by the parsed text."""

    @model_validator(mode="after")
    def _writer_has_its_endpoint(self) -> Self:
        if self.writer == "endpoint" and self.endpoint is None:
            raise ValueError("queries.writer is 'endpoint' but queries.endpoint is not set")
        if self.writer == "mrcr" and self.mrcr is None:
            raise ValueError(
                "queries.writer is 'mrcr' but queries.mrcr is not set: give its lengths, or {} for the defaults"
            )
        if self.val_share + self.test_share >= 1:
            raise ValueError(
                "queries.val_share and queries.test_share leave nothing to train on: their sum must be under 1"
            )
        return self
