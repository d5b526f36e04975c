"""What the endpoint writer will ask, how many tokens that takes, and what it costs: known before the first call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rlm_core.params import EndpointParams
from rlm_core.records import Kind
from rlm_core.synthesis.passages import Passage

MAX_PROMPT_CHARS = 60_000
"""Of paragraphs shown in one call; longer papers are thinned evenly."""
CHARS_PER_TOKEN = 4.0
QUESTION_TOKENS = 70
"""A question with its ranges, as JSON."""
CHECK_PROMPT_TOKENS = 300
"""Instruction, question and passage of one check."""
CHECK_REPLY_TOKENS = 45
SINGLE_CHECKS = 2.2
"""Checks a question: its passages and the likeliest other one."""
MULTI_CHECKS = 4.5

Group = Mapping[str, Sequence[Passage]]


@dataclass(frozen=True, slots=True)
class Ask:
    """One call that writes questions."""

    kind: Kind
    num_papers: int
    questions: int
    messages: Sequence[Mapping[str, str]]
    kept: bool
    """Its reply is there from an earlier run."""


@dataclass(frozen=True, slots=True)
class Plan:
    """An estimate: the prompts of writing calls are counted (4 characters a token), checks and replies guessed from above."""

    write_calls: int
    kept_replies: int
    """Writing calls answered by an earlier run; neither they nor their checks are in the other figures."""
    questions: int
    checks: int
    prompt_tokens: int
    completion_tokens: int
    cost: float | None
    """In the currency of the endpoint's prices; None where a price is unknown."""

    def sentence(self) -> str:
        cost = "unknown: the endpoint's prices are not set" if self.cost is None else f"about {self.cost:,.2f}"
        kept = f"; {self.kept_replies:,} calls are answered by an earlier run" if self.kept_replies else ""
        return (
            f"{self.write_calls:,} calls for {self.questions:,} questions and about {self.checks:,} checks, some "
            f"{self.prompt_tokens:,} prompt and {self.completion_tokens:,} completion tokens, cost {cost}{kept}"
        )


def jobs_of(groups: Sequence[Group], singles: int, multis: int) -> list[tuple[Kind, Group, int]]:
    """Kind, papers and questions wanted of each writing call."""
    jobs: list[tuple[Kind, Group, int]] = []
    for papers in groups:
        if multis > 0 and len(papers) > 1:
            jobs.append(("multi", papers, multis))
        if singles > 0:
            jobs += [("single", {paper: passages}, singles) for paper, passages in papers.items()]
    return jobs


def asked_for(wanted: int) -> int:
    """Half as many again: some will not survive the checks."""
    return wanted + (wanted + 1) // 2


def shown_passages(papers: Group) -> list[Passage]:
    """The paragraphs that may be evidence, thinned evenly, paper by paper, to what one call shows."""
    room = MAX_PROMPT_CHARS // max(1, len(papers))
    shown: list[Passage] = []
    for passages in papers.values():
        eligible = [p for p in passages if p.can_be_evidence]
        total = sum(len(p.text) for p in eligible)
        keep = len(eligible) if total <= room else max(1, len(eligible) * room // total)
        shown += [eligible[i * len(eligible) // keep] for i in range(keep)] if eligible else []
    return shown


def plan_of(asks: Sequence[Ask], endpoint: EndpointParams) -> Plan:
    """The sum over the calls that are not answered yet."""
    new = [ask for ask in asks if not ask.kept]
    chars = sum(len(m["content"]) for ask in new for m in ask.messages)
    checks = round(sum(ask.questions * (SINGLE_CHECKS if ask.kind == "single" else MULTI_CHECKS) for ask in new))
    questions = sum(ask.questions for ask in new)
    prompt_tokens = round(chars / CHARS_PER_TOKEN) + checks * CHECK_PROMPT_TOKENS
    completion_tokens = questions * QUESTION_TOKENS + checks * CHECK_REPLY_TOKENS
    return Plan(
        write_calls=len(new),
        kept_replies=len(asks) - len(new),
        questions=questions,
        checks=checks,
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
        cost=endpoint.cost(prompt_tokens, completion_tokens),
    )
