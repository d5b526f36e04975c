"""An answer for clients: as text with paper and page, and as fields that a program reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rlm_core.cli.ask import find_place
from rlm_core.records import Rollout, Status
from rlm_core.rewards import answer_passages

if TYPE_CHECKING:
    from rlm_core.papers import Paper


@dataclass(frozen=True, slots=True)
class CitedPassage:
    """One passage of an answer. Without a paper, none holds it: the model made it up, or changed it beyond recognition."""

    text: str
    paper_id: str | None = None
    title: str | None = None
    page: int | None = None
    """From 1."""
    score: float = 0.0
    """Share of the passage's characters that the paper holds there, 0..1."""


def cite(rollout: Rollout, library: Mapping[str, Paper]) -> list[CitedPassage]:
    """The passages of a tree's answer with their places. Aligning them takes processor time: call it in a thread."""
    return [_cited(passage, library) for passage in answer_passages(rollout.answer)]


def _cited(passage: str, library: Mapping[str, Paper]) -> CitedPassage:
    place = find_place(passage, library)
    if place is None:
        return CitedPassage(passage)
    return CitedPassage(passage, place.paper_id, place.title, place.page, round(place.score, 4))


def answer_text(cited: Sequence[CitedPassage]) -> str:
    """What a person reads: each passage quoted, with paper and page."""
    if not cited:
        return "No evidence found."
    return "\n\n".join(f"{number}. {_quote(passage)}" for number, passage in enumerate(cited, 1))


def _quote(passage: CitedPassage) -> str:
    where = (
        f"{passage.title or passage.paper_id} ({passage.paper_id}), page {passage.page}"
        if passage.paper_id
        else "in none of the papers"
    )
    return f"“{' '.join(passage.text.split())}”\n   — {where}"


def finish_reason(rollout: Rollout) -> str:
    """`stop` for an answer in time, `length` for what a budget cut short."""
    return "stop" if rollout.status is Status.ANSWERED else "length"


def usage_of(rollout: Rollout) -> dict[str, int]:
    """Tokens of all nodes."""
    used = rollout.usage
    return {
        "prompt_tokens": used.prompt_tokens,
        "completion_tokens": used.completion_tokens,
        "total_tokens": used.prompt_tokens + used.completion_tokens,
    }


def rlm_fields(rollout: Rollout, cited: Sequence[CitedPassage]) -> dict[str, Any]:
    """The field `rlm` of a reply: evidence, and what the tree did."""
    return {
        "evidence": [asdict(passage) for passage in cited],
        "status": str(rollout.status),
        "turns": rollout.usage.turns,
        "children": rollout.usage.children,
        "seconds": round(rollout.usage.wall_seconds, 3),
    }
