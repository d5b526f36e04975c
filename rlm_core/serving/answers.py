"""An answer for clients: as text with paper and page, and as fields that a program reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rlm_core.records import Rollout, Status
from rlm_core.serving.citations import CitedPassage


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
        "evidence": [asdict(passage) | {"score": round(passage.score, 4)} for passage in cited],
        "status": str(rollout.status),
        "turns": rollout.usage.turns,
        "children": rollout.usage.children,
        "seconds": round(rollout.usage.wall_seconds, 3),
    }
