"""What every question writer returns: drafts in order of preference, and why others were dropped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from rlm_core.records import Kind
from rlm_core.synthesis.passages import Passage


@dataclass(frozen=True)
class Draft:
    """A question with its evidence passages, not yet aligned to the parsed text."""

    question: str
    kind: Kind
    paper_ids: tuple[str, ...]
    """Papers that the policy may read."""
    evidence: tuple[Passage, ...]
    details: Mapping[str, Any] = field(default_factory=dict)
    """Of the writer: template, phrase, cue, model."""

    @property
    def key_phrase(self) -> str:
        """The phrase whose search should lead to the evidence; empty when the writer names none."""
        return str(self.details.get("phrase", ""))


class Writer(Protocol):
    """Writes questions over clean text. `rejected` counts what it dropped, by reason."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def rejected(self) -> Counter[str]: ...

    @property
    def usage(self) -> Mapping[str, float]:
        """Requests, tokens and cost; empty for a writer without a model."""
        ...

    def prepare(self, groups: Iterable[Mapping[str, Sequence[Passage]]], singles: int, multis: int) -> None:
        """Called once with every group before any question is taken."""
        ...

    def single(self, passages: Sequence[Passage], wanted: int) -> Iterator[Draft]:
        """Questions on one paper, given its passages, best first; may be more than `wanted`."""
        ...

    def multi(self, papers: Mapping[str, Sequence[Passage]], wanted: int) -> Iterator[Draft]:
        """Questions on the papers of a group."""
        ...
