"""The endpoint writer: a model writes questions over numbered lines, and a second call verifies each passage.

The model returns ranges of lines, never text: evidence is cut from the OCR text by us, so its spans are exact. Every reply
is kept by a hash of what was asked (model, prompt version, messages); a second run asks only what is missing.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import httpx

from rlm_core.files import content_key, read_kept, write_json
from rlm_core.params import EndpointParams
from rlm_core.records import Kind
from rlm_core.synthesis import endpoint_prompts as prompts
from rlm_core.synthesis.chat import FIRST_WAIT_SECONDS, StructuredChat
from rlm_core.synthesis.checks import gives_away
from rlm_core.synthesis.drafts import Draft
from rlm_core.synthesis.endpoint_plan import Ask, Plan, asked_for, jobs_of, plan_of, shown_passages
from rlm_core.synthesis.passages import PaperIndex, Passage

log = logging.getLogger("rlm.queries")
T = TypeVar("T")

MAX_EVIDENCE_PER_PAPER = 2
MIN_EVIDENCE_CHARS = 60
"""Of a range of lines: less than a short sentence proves nothing."""


class _Dropped(Exception):
    """Why a proposal does not become a question."""


class EndpointWriter:
    """Asks in `prepare`, concurrently; `single` and `multi` then read what came back."""

    name = "endpoint"

    def __init__(
        self,
        endpoint: EndpointParams,
        *,
        cache_folder: Path | None = None,
        first_wait_seconds: float = FIRST_WAIT_SECONDS,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.rejected: Counter[str] = Counter()
        self.version = f"{prompts.VERSION}:{endpoint.model}"
        self._chat = StructuredChat(endpoint, first_wait_seconds=first_wait_seconds, transport=transport)
        self._cache = cache_folder / "replies" if cache_folder else None
        self._drafts: dict[tuple[Kind, tuple[str, ...]], list[Draft]] = {}
        self._reused = 0

    @property
    def usage(self) -> dict[str, float]:
        """Requests, retries and tokens of this run, replies taken from an earlier one, and the cost where prices are known."""
        usage = self._chat.usage
        counts: dict[str, float] = {**asdict(usage), "reused_replies": self._reused}
        cost = self._chat.endpoint.cost(usage.prompt_tokens, usage.completion_tokens)
        return counts if cost is None else {**counts, "cost": cost}

    def prepare(self, groups: Iterable[Mapping[str, Sequence[Passage]]], singles: int, multis: int) -> None:
        """Write and verify all questions of all groups; raises `ChatError`, with finished replies kept."""
        asyncio.run(self._prepare(list(groups), singles, multis))

    async def _prepare(self, groups: list[Mapping[str, Sequence[Passage]]], singles: int, multis: int) -> None:
        jobs = jobs_of(groups, singles, multis)
        log.info("question writer: %s", self.plan(groups, singles, multis).sentence())
        try:
            found = await _all([self._write(*job) for job in jobs])
        finally:
            await self._chat.aclose()
        for (kind, papers, _), drafts in zip(jobs, found, strict=True):
            self._drafts[kind, tuple(papers)] = drafts
        log.info("question writer: %s", ", ".join(f"{k.replace('_', ' ')} {v:,}" for k, v in self.usage.items()))

    def plan(self, groups: Sequence[Mapping[str, Sequence[Passage]]], singles: int, multis: int) -> Plan:
        """What `prepare` would ask, without asking."""
        asked = []
        for kind, papers, wanted in jobs_of(groups, singles, multis):
            if shown := shown_passages(papers):
                messages = prompts.write_messages(kind, prompts.Lines(shown), asked_for(wanted))
                path = self._kept(messages)
                asked.append(Ask(kind, len(papers), asked_for(wanted), messages, path is not None and path.exists()))
        return plan_of(asked, self._chat.endpoint)

    def single(self, passages: Sequence[Passage], wanted: int) -> Iterator[Draft]:
        """The verified questions on one paper; empty unless `prepare` asked for them."""
        yield from self._drafts.get(("single", (passages[0].paper_id,)), ()) if passages else ()

    def multi(self, papers: Mapping[str, Sequence[Passage]], wanted: int) -> Iterator[Draft]:
        """The verified questions on a group, widest tier first."""
        yield from self._drafts.get(("multi", tuple(papers)), ())

    async def _write(self, kind: Kind, papers: Mapping[str, Sequence[Passage]], wanted: int) -> list[Draft]:
        shown = shown_passages(papers)
        if not shown or (kind == "multi" and len({p.paper_id for p in shown}) < 2):
            return []
        lines = prompts.Lines(shown)
        messages = prompts.write_messages(kind, lines, asked_for(wanted))
        proposals = await self._ask(messages, prompts.WRITE_SCHEMA, prompts.read_proposals, max_tokens=4096)
        index = PaperIndex([p for passages in papers.values() for p in passages])
        drafts = await _all([self._draft(kind, p, lines, index, tuple(papers)) for p in proposals])
        kept = [d for d in drafts if d is not None]
        return sorted(kept, key=lambda d: -len({p.paper_id for p in d.evidence})) if kind == "multi" else kept

    async def _draft(
        self,
        kind: Kind,
        proposal: prompts.Proposal,
        lines: prompts.Lines,
        index: PaperIndex,
        paper_ids: tuple[str, ...],
    ) -> Draft | None:
        """The proposal as a draft of verified evidence; None, counted by reason, when it does not hold up."""
        try:
            return await self._checked(kind, proposal, lines, index, paper_ids)
        except _Dropped as dropped:
            self.rejected[str(dropped)] += 1
            return None

    async def _checked(
        self,
        kind: Kind,
        proposal: prompts.Proposal,
        lines: prompts.Lines,
        index: PaperIndex,
        paper_ids: tuple[str, ...],
    ) -> Draft:
        cuts = [lines.cut(first, last) for first, last in dict.fromkeys(proposal.ranges)]
        chosen = [passage for passage in cuts if passage is not None]
        if len(chosen) < len(cuts):
            raise _Dropped("names lines that were not shown or lie in several paragraphs")
        if max(Counter(p.paper_id for p in chosen).values(), default=9) > MAX_EVIDENCE_PER_PAPER:
            raise _Dropped("no or too many passages named")
        if any(len(p.text) < MIN_EVIDENCE_CHARS for p in chosen):
            raise _Dropped("names less than a sentence")
        if gives_away(proposal.question, [p.text for p in chosen]):
            raise _Dropped("gives its evidence away")
        verdicts = await _all([self._answers(proposal.question, p) for p in chosen])
        evidence = [p for p, answers in zip(chosen, verdicts, strict=True) if answers]
        self.rejected["passage not verified"] += len(chosen) - len(evidence)
        if not evidence or (kind == "multi" and len({p.paper_id for p in evidence}) < 2):
            raise _Dropped("too little verified evidence")
        rival = _rival(proposal.question, chosen, index)
        if rival is not None and await self._answers(proposal.question, rival):
            raise _Dropped("another passage answers as well")
        details = {"model": self._chat.endpoint.model, "prompt_version": prompts.VERSION}
        return Draft(proposal.question, kind, paper_ids, tuple(evidence), details)

    async def _answers(self, question: str, passage: Passage) -> bool:
        messages = prompts.verify_messages(question, passage)
        return await self._ask(messages, prompts.VERIFY_SCHEMA, prompts.read_verdict, max_tokens=300)

    async def _ask(
        self,
        messages: Sequence[Mapping[str, str]],
        schema: Mapping[str, Any],
        parse: Callable[[Mapping[str, Any]], T],
        *,
        max_tokens: int,
    ) -> T:
        """A reply from an earlier run, or a new one, kept as the model gave it."""
        path = self._kept(messages)
        if path and (kept := read_kept(path, lambda reply: (parse(reply),))) is not None:
            self._reused += 1
            return kept[0]

        def checked(reply: dict[str, Any]) -> dict[str, Any]:
            parse(reply)
            return reply

        reply = await self._chat.ask(messages, schema, checked, max_tokens=max_tokens)
        if path:
            write_json(path, reply)
        return parse(reply)

    def _kept(self, messages: Sequence[Mapping[str, str]]) -> Path | None:
        """Where the reply to these messages is kept."""
        endpoint = self._chat.endpoint
        key = content_key(endpoint.base_url, endpoint.model, prompts.VERSION, list(messages))
        return self._cache / key[:2] / f"{key}.json" if self._cache else None


async def _all(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Results in order; at the first failure the others are cancelled and waited for."""
    tasks = [asyncio.ensure_future(w) for w in work]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def _rival(question: str, chosen: Sequence[Passage], index: PaperIndex) -> Passage | None:
    """The passage, outside the evidence, that ranks highest for the question."""
    taken = {(p.paper_id, p.number) for p in chosen}
    ranked = sorted(zip(index.scores(question), index.passages, strict=True), key=lambda row: -row[0])
    return next((p for score, p in ranked if score > 0 and (p.paper_id, p.number) not in taken), None)
