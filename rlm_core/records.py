"""The frozen records that every part shares: queries, rollout trees, training samples, judgements.

All of them are plain data with `to_dict` / `from_dict`; reading is tolerant of missing keys (every key that
has a default may be absent) and strict about keys it does not know only where a typo would change meaning.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, Self

Context = str | dict[str, Any]
"""What the policy explores: one text, or `{paper_id: {"title", "abstract", "text"}}`."""

Kind = Literal["single", "multi"]
Tier = Literal["1", "2", "3-4", "5+"]


def tier_of(num_papers: int) -> Tier:
    """The tier of a question whose evidence lies in `num_papers` papers."""
    if num_papers < 1:
        raise ValueError(f"a question needs evidence in at least 1 paper, got {num_papers}")
    if num_papers == 1:
        return "1"
    if num_papers == 2:
        return "2"
    return "3-4" if num_papers <= 4 else "5+"


@dataclass(frozen=True, slots=True)
class Span:
    """A place in a text, half-open character offsets. `pieces` are its parts where columns interleave."""

    start: int
    end: int
    score: float = 1.0
    """Share of the sought characters found here, 0..1."""
    pieces: tuple[tuple[int, int], ...] = ()
    """At least one piece once located; for a contiguous span exactly `((start, end),)`."""

    def to_dict(self) -> dict[str, Any]:
        return {"start": self.start, "end": self.end, "score": self.score, "pieces": [list(p) for p in self.pieces]}

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Self:
        pieces = tuple((int(a), int(b)) for a, b in row.get("pieces", ()))
        return cls(int(row["start"]), int(row["end"]), float(row.get("score", 1.0)), pieces)


@dataclass(frozen=True, slots=True)
class Evidence:
    """One gold passage: clean text from OCR, and where the parsed (noisy) text of the same paper holds it."""

    paper_id: str
    text: str
    span: Span | None = None
    """None: the parsed text does not hold the passage; such a query is kept out of training."""

    def to_dict(self) -> dict[str, Any]:
        return {"paper_id": self.paper_id, "text": self.text, "span": self.span.to_dict() if self.span else None}

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Self:
        span = row.get("span")
        return cls(row["paper_id"], row["text"], Span.from_dict(span) if span else None)


@dataclass(frozen=True, slots=True)
class Query:
    """A question over one paper or a group of papers, with its gold evidence."""

    id: str
    question: str
    kind: Kind = "single"
    tier: Tier = "1"
    paper_ids: tuple[str, ...] = ()
    """The papers that the policy may read, not only those that hold evidence."""
    evidence: tuple[Evidence, ...] = ()
    group_id: str = ""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """Writer, its version, the engines and dpi behind gold and noisy text."""
    context: Context | None = None
    """What the REPL holds. Never stored with the query: `papers.library` attaches it from the parsed papers."""

    def to_dict(self) -> dict[str, Any]:
        """The stored row, without `context`."""
        return {
            "id": self.id,
            "question": self.question,
            "kind": self.kind,
            "tier": self.tier,
            "paper_ids": list(self.paper_ids),
            "evidence": [e.to_dict() for e in self.evidence],
            "group_id": self.group_id,
            "provenance": dict(self.provenance),
        }

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Self:
        return cls(
            id=row["id"],
            question=row["question"],
            kind=row.get("kind", "single"),
            tier=row.get("tier", "1"),
            paper_ids=tuple(row.get("paper_ids", ())),
            evidence=tuple(Evidence.from_dict(e) for e in row.get("evidence", ())),
            group_id=row.get("group_id", ""),
            provenance=dict(row.get("provenance", {})),
        )

    @property
    def gold(self) -> list[str]:
        """The gold passages as texts, in order."""
        return [e.text for e in self.evidence]


class ErrorClass(StrEnum):
    """What went wrong in a turn, recorded when it happens; filters read this and never search text."""

    NONE = "none"
    CODE = "code"
    """The model's code raised."""
    FORMAT = "format"
    """No code and no answer, an unreadable fence, a wrong-language block."""
    ANSWER = "answer"
    """FINAL / FINAL_VAR misused: missing variable, answer before any look at the context."""
    LIMIT = "limit"
    """A block ran out of time or memory, or its worker was killed."""
    BUDGET = "budget"
    """The model asked for more than the tree's budget allows."""
    LENGTH = "length"
    """The completion was cut at `max_tokens`."""


class Status(StrEnum):
    """How a node ended."""

    ANSWERED = "answered"
    OUT_OF_TURNS = "out_of_turns"
    """No answer within the turns; `answer` may still hold the best guess of the last call."""
    OUT_OF_BUDGET = "out_of_budget"
    """Tokens or wall time of the tree were spent before an answer."""
    CANCELLED = "cancelled"
    FAILED = "failed"
    """The harness failed (endpoint, sandbox): never an answer, never a zero; the tree leaves its group."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a node cost, children included."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    model_calls: int = 0
    turns: int = 0
    children: int = 0
    """Descendants, at any depth."""
    repl_seconds: float = 0.0
    model_seconds: float = 0.0
    wall_seconds: float = 0.0
    """Of the node itself, waits for children included; not a sum over children."""

    def plus(self, other: Usage) -> Usage:
        """Sum of two usages; wall time stays this node's own."""
        sums = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in dataclasses.fields(self)}
        return Usage(**{**sums, "wall_seconds": self.wall_seconds})


@dataclass(frozen=True, slots=True)
class Turn:
    """One policy call of a node and what came back from the REPL."""

    text: str = ""
    """The completion as text."""
    observation: str = ""
    """What the model is shown next; empty after the answer."""
    prompt_ids: tuple[int, ...] = ()
    """The exact tokens that the model read. Empty where the policy gives none (an endpoint without token ids)."""
    completion_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    """As sampled, one per completion token; never recomputed. Empty for a scripted policy."""
    cue: str = ""
    """The turn cue that ended the prompt, e.g. "Turn 2 of 4"."""
    error: ErrorClass = ErrorClass.NONE
    finish_reason: str = "stop"
    model_seconds: float = 0.0
    repl_seconds: float = 0.0
    weights_version: int = 0
    """Of the weights that sampled this turn; 0 is the initial policy."""

    def to_dict(self) -> dict[str, Any]:
        row = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        row["error"] = str(self.error)
        for key in ("prompt_ids", "completion_ids", "logprobs"):
            row[key] = list(row[key])
        return row

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Self:
        known = {f.name: row[f.name] for f in dataclasses.fields(cls) if f.name in row}
        for key in ("prompt_ids", "completion_ids", "logprobs"):
            known[key] = tuple(known.get(key) or ())
        known["error"] = ErrorClass(known.get("error", "none"))
        return cls(**known)


@dataclass(frozen=True, slots=True)
class Rollout:
    """A node of a rollout tree; the root is the whole tree.

    A root of two turns whose first turn asked two children::

        Rollout("q1.0", turns=(t0, t1), children=(Rollout("q1.0.0", parent_id="q1.0", depth=1), Rollout("q1.0.1", ...)))
    """

    id: str
    parent_id: str | None = None
    depth: int = 0
    query_id: str = ""
    parent_turn: int | None = None
    """Index of the parent's turn that asked for this child; None for a root."""
    question: str = ""
    opening: tuple[tuple[str, str], ...] = ()
    """The (role, content) messages before the first turn: system, then the task."""
    cue_kept: bool = True
    """True: each turn's cue stays in the history; False: it is re-appended every turn (`ephemeral`)."""
    turns: tuple[Turn, ...] = ()
    children: tuple[Rollout, ...] = ()
    answer: Any = None
    """JSON data: usually a list of passages. None without an answer."""
    status: Status = Status.ANSWERED
    failure: str = ""
    """For `FAILED`: what failed, for people."""
    usage: Usage = Usage()
    policy: str = ""
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def walk(self) -> Iterator[Rollout]:
        """Every node of the tree, parents before their children, siblings in the order they were asked for."""
        yield self
        for child in self.children:
            yield from child.walk()

    def to_dict(self) -> dict[str, Any]:
        row = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        row["opening"] = [list(m) for m in self.opening]
        row["turns"] = [t.to_dict() for t in self.turns]
        row["children"] = [c.to_dict() for c in self.children]
        row["status"] = str(self.status)
        row["usage"] = dataclasses.asdict(self.usage)
        row["provenance"] = dict(self.provenance)
        return row

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Self:
        """Build a tree from `{"id", "turns", "children", ...}`; children get `parent_id` and `depth` when absent."""
        return cls._from_dict(row, parent_id=None, depth=0)

    @classmethod
    def _from_dict(cls, row: Mapping[str, Any], *, parent_id: str | None, depth: int) -> Self:
        if "id" not in row:
            raise ValueError(f"a rollout needs an 'id', got the keys {sorted(row)}")
        known = {f.name: row[f.name] for f in dataclasses.fields(cls) if f.name in row}
        known.setdefault("parent_id", parent_id)
        known.setdefault("depth", depth)
        known["opening"] = tuple((role, content) for role, content in known.get("opening", ()))
        known["turns"] = tuple(Turn.from_dict(t) for t in known.get("turns", ()))
        known["children"] = tuple(
            cls._from_dict(c, parent_id=row["id"], depth=known["depth"] + 1) for c in known.get("children", ())
        )
        known["status"] = Status(known.get("status", "answered"))
        known["usage"] = Usage(**known.get("usage", {}))
        return cls(**known)


@dataclass(frozen=True, slots=True)
class TurnSample:
    """One policy call, ready for the loss. A root of 2 turns without children gives two, each of weight 1/2."""

    prompt_ids: Sequence[int]
    completion_ids: Sequence[int]
    logprobs: Sequence[float]
    """As sampled, one per completion token; never recomputed."""
    advantage: float
    """The tree's, shared by all its nodes. 0.0 is a value; an unjudged tree gives no sample at all."""
    weight: float
    """Share of this turn in `L = sum(weight * turn_loss)`."""
    node_id: str = ""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A rubric judge's verdict on one answer."""

    precision: int
    """1..10: how much of the answer is evidence."""
    recall: int
    """1..10: how much of the evidence the answer holds."""
    reward: float
    """0..1; (precision + recall) / 20 unless the rubric has more criteria."""
    rationale: str = ""
    judge: str = ""
    criteria: Mapping[str, float] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Why, by criterion; empty where the judge gives one reason for all. `rationale` holds them as one text."""

    def to_dict(self) -> dict[str, Any]:
        row = dataclasses.asdict(self)
        row["criteria"], row["reasons"] = dict(self.criteria), dict(self.reasons)
        return row

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Self:
        return cls(**{f.name: row[f.name] for f in dataclasses.fields(cls) if f.name in row})
