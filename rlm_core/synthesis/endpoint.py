"""The endpoint writer: a model writes questions over numbered paragraphs, and a second call verifies each passage.

The model returns paragraph numbers, never text: evidence is cut from the OCR text by us, so its spans are exact. Every reply
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

from rlm_core.files import content_key, read_json, write_json
from rlm_core.params import EndpointParams
from rlm_core.records import Kind
from rlm_core.synthesis import endpoint_prompts as prompts
from rlm_core.synthesis.chat import FIRST_WAIT_SECONDS, StructuredChat
from rlm_core.synthesis.checks import gives_away
from rlm_core.synthesis.drafts import Draft
from rlm_core.synthesis.passages import PaperIndex, Passage

log = logging.getLogger("rlm.queries")
T = TypeVar("T")

MAX_PROMPT_CHARS = 60_000
"""Of paragraphs shown in one call; longer papers are thinned evenly."""
MAX_EVIDENCE_PER_PAPER = 2


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
    def usage(self) -> dict[str, int]:
        """Requests, retries and tokens of this run, and replies taken from an earlier one."""
        return {**asdict(self._chat.usage), "reused_replies": self._reused}

    def prepare(self, groups: Iterable[Mapping[str, Sequence[Passage]]], singles: int, multis: int) -> None:
        """Write and verify all questions of all groups; raises `ChatError`, with finished replies kept."""
        asyncio.run(self._prepare(list(groups), singles, multis))

    async def _prepare(self, groups: list[Mapping[str, Sequence[Passage]]], singles: int, multis: int) -> None:
        jobs: list[tuple[Kind, Mapping[str, Sequence[Passage]], int]] = []
        for papers in groups:
            if multis > 0 and len(papers) > 1:
                jobs.append(("multi", papers, multis))
            if singles > 0:
                jobs += [("single", {paper: passages}, singles) for paper, passages in papers.items()]
        self._announce(jobs)
        try:
            found = await _all([self._write(*job) for job in jobs])
        finally:
            await self._chat.aclose()
        for (kind, papers, _), drafts in zip(jobs, found, strict=True):
            self._drafts[kind, tuple(papers)] = drafts
        log.info("question writer: %s", ", ".join(f"{v} {k.replace('_', ' ')}" for k, v in self.usage.items()))

    def _announce(self, jobs: Sequence[tuple[Kind, Mapping[str, Sequence[Passage]], int]]) -> None:
        """The cost, estimated before the first call: four characters a token."""
        shown = sum(len(p.text) for _, papers, wanted in jobs for p in _shown(papers))
        questions = sum(_asked_for(wanted) for _, _, wanted in jobs)
        checks = questions * 3
        tokens = shown // 4 + len(jobs) * 400 + checks * 450
        log.info(
            "question writer: %d calls for %d questions and about %d checks, some %d thousand prompt tokens at most",
            len(jobs), questions, checks, tokens // 1000,
        )  # fmt: skip

    def single(self, passages: Sequence[Passage], wanted: int) -> Iterator[Draft]:
        """The verified questions on one paper; empty unless `prepare` asked for them."""
        yield from self._drafts.get(("single", (passages[0].paper_id,)), ()) if passages else ()

    def multi(self, papers: Mapping[str, Sequence[Passage]], wanted: int) -> Iterator[Draft]:
        """The verified questions on a group, widest tier first."""
        yield from self._drafts.get(("multi", tuple(papers)), ())

    async def _write(self, kind: Kind, papers: Mapping[str, Sequence[Passage]], wanted: int) -> list[Draft]:
        shown = _shown(papers)
        if not shown or (kind == "multi" and len({p.paper_id for p in shown}) < 2):
            return []
        messages = prompts.write_messages(kind, shown, _asked_for(wanted))
        proposals = await self._ask(messages, prompts.WRITE_SCHEMA, prompts.read_proposals, max_tokens=4096)
        index = PaperIndex([p for passages in papers.values() for p in passages])
        drafts = await _all([self._draft(kind, p, shown, index, tuple(papers)) for p in proposals])
        kept = [d for d in drafts if d is not None]
        return sorted(kept, key=lambda d: -len({p.paper_id for p in d.evidence})) if kind == "multi" else kept

    async def _draft(
        self,
        kind: Kind,
        proposal: prompts.Proposal,
        shown: Sequence[Passage],
        index: PaperIndex,
        paper_ids: tuple[str, ...],
    ) -> Draft | None:
        """The proposal as a draft of verified evidence; None, counted by reason, when it does not hold up."""
        try:
            return await self._checked(kind, proposal, shown, index, paper_ids)
        except _Dropped as dropped:
            self.rejected[str(dropped)] += 1
            return None

    async def _checked(
        self,
        kind: Kind,
        proposal: prompts.Proposal,
        shown: Sequence[Passage],
        index: PaperIndex,
        paper_ids: tuple[str, ...],
    ) -> Draft:
        if any(not 0 <= n < len(shown) for n in proposal.paragraphs):
            raise _Dropped("names a paragraph that was not shown")
        chosen = [shown[n] for n in dict.fromkeys(proposal.paragraphs)]
        if max(Counter(p.paper_id for p in chosen).values(), default=9) > MAX_EVIDENCE_PER_PAPER:
            raise _Dropped("no or too many paragraphs named")
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
        endpoint = self._chat.endpoint
        key = content_key(endpoint.base_url, endpoint.model, prompts.VERSION, list(messages))
        path = self._cache / key[:2] / f"{key}.json" if self._cache else None
        if path and path.exists():
            self._reused += 1
            return parse(read_json(path))

        def checked(reply: dict[str, Any]) -> dict[str, Any]:
            parse(reply)
            return reply

        reply = await self._chat.ask(messages, schema, checked, max_tokens=max_tokens)
        if path:
            write_json(path, reply)
        return parse(reply)


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


def _asked_for(wanted: int) -> int:
    """Half as many again: some will not survive the checks."""
    return wanted + (wanted + 1) // 2


def _shown(papers: Mapping[str, Sequence[Passage]]) -> list[Passage]:
    """The paragraphs that may be evidence, thinned evenly, paper by paper, to what one call shows."""
    room = MAX_PROMPT_CHARS // max(1, len(papers))
    shown: list[Passage] = []
    for passages in papers.values():
        eligible = [p for p in passages if p.can_be_evidence]
        total = sum(len(p.text) for p in eligible)
        keep = len(eligible) if total <= room else max(1, len(eligible) * room // total)
        shown += [eligible[i * len(eligible) // keep] for i in range(keep)] if eligible else []
    return shown


def _rival(question: str, chosen: Sequence[Passage], index: PaperIndex) -> Passage | None:
    """The passage, outside the evidence, that ranks highest for the question."""
    taken = {(p.paper_id, p.number) for p in chosen}
    ranked = sorted(zip(index.scores(question), index.passages, strict=True), key=lambda row: -row[0])
    return next((p for score, p in ranked if score > 0 and (p.paper_id, p.number) not in taken), None)
