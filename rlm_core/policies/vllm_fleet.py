"""Several running vLLM servers as one: the least loaded one takes a request, a dead one is left out until it answers again.

All of them serve the same weights at any time: new ones go to every server before the next request, and a server that comes
back gets them before its first. Requests that were under way on a server that died begin again on another one, with the
same prompt and seed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import aiohttp

from rlm_core.policies.base import PolicyError
from rlm_core.policies.fleet_member import Member
from rlm_core.policies.http import HttpError
from rlm_core.policies.models import Dtype
from rlm_core.policies.served_model import ServedModel, VllmServerError
from rlm_core.policies.vllm_server import VllmServer

log = logging.getLogger("rlm.serve")

T = TypeVar("T")

UNSEEN_SECONDS = 8.0
"""In less nobody restarts a vLLM server: it takes longer to load. Whoever was watched without a longer gap serves what it
was given."""


class VllmFleet(ServedModel):
    """An async context manager around the servers at `urls`, used where a `VllmServer` is.

    >>> async with VllmFleet(model_folder, urls=["http://node1:8000", "http://node2:8000"]) as fleet:
    ...     policy = VllmPolicy(fleet, ChatRenderer(load_tokenizer(model_folder)))
    ...     await fleet.reload(trained_model.state_dict())    # on all of them: fleet.version is 1 from here on

    Each must run as `VllmServer` says of its `url`, and all must see `folder` at the same path. Servers that do not answer
    at first are taken in when they do; one at least must. Entering raises `VllmServerError` when none answers, or one
    serves too short a context or refuses the weights.

    Every `check_seconds` each server's /health is asked, for `health_seconds`. A refused connection leaves a server out at
    once, silence after `silent_seconds`. A request is tried `tries` times at most; while no server lives it waits up to
    `patience_seconds`.
    """

    def __init__(
        self,
        model: Path | str,
        *,
        urls: Sequence[str],
        max_model_len: int = 2048,
        dtype: Dtype = "bfloat16",
        folder: Path | str = Path(".cache/serve"),
        timeout_seconds: float = 600.0,
        check_seconds: float = 2.0,
        health_seconds: float = 5.0,
        silent_seconds: float = 30.0,
        patience_seconds: float = 300.0,
        tries: int = 7,
    ) -> None:
        if not urls:
            raise ValueError("a fleet needs the address of one vLLM server at least")
        super().__init__(model, max_model_len=max_model_len, dtype=dtype, folder=folder)
        self._check_seconds, self._health_seconds = check_seconds, health_seconds
        self._patience, self._tries = patience_seconds, tries

        def serve(url: str) -> VllmServer:
            return VllmServer(self.model, url=url, max_model_len=self.max_model_len, dtype=dtype, folder=folder)

        self._members = [
            Member(url, serve, timeout_seconds=timeout_seconds, silent_seconds=silent_seconds) for url in urls
        ]
        self._source = self.model
        """The folder of the weights that all serve."""
        self._returned = asyncio.Condition()
        self._publishing = asyncio.Lock()
        """Held by whoever gives weights to a server."""
        self._watch: asyncio.Task[None] | None = None
        self._returning: dict[str, asyncio.Task[None]] = {}
        self._looked = 0.0
        """When the servers were last looked at."""

    @property
    def url(self) -> str:
        """All addresses, for people."""
        return ", ".join(member.url for member in self._members)

    @property
    def in_flight(self) -> dict[str, int]:
        """Requests under way on each server that is in use."""
        return {member.url: member.in_flight for member in self._members if member.alive}

    def why_dead(self) -> str | None:
        """A fleet is waited for: servers may come back."""
        return None

    async def _open(self) -> None:
        async with self._health_session() as session:
            answers = await asyncio.gather(*(member.check(session) for member in self._members))
        if not any(answers):
            raise VllmServerError(f"serve.url: no vLLM server answers at {self.url}; start one or correct the list")
        joined = [member for member, answer in zip(self._members, answers, strict=True) if answer]
        await asyncio.gather(*(member.join(self.version, self._source) for member in joined))
        for member in self._members:
            if not member.alive:
                log.warning("%s does not answer; it is taken in when it does", member.url)
        self.max_model_len = min(member.max_model_len for member in joined)
        self._looked = time.monotonic()
        self._watch = asyncio.create_task(self._watch_members())

    async def _close(self) -> None:
        tasks = [task for task in (self._watch, *self._returning.values()) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for member in self._members:
            await member.leave()
        await super()._close()

    def _health_session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=self._health_seconds))

    async def post(self, path: str, body: Mapping[str, Any], read: Callable[[Any], T], *, version: int) -> T:
        """As `JsonClient.post`, on the least loaded server; the body's `model` becomes its name there. Call it inside
        `generating()`, with the version that this yields. Raises `PolicyError` when all tries are used up."""
        tried: set[str] = set()
        for attempt in range(self._tries):
            member = await self._choose(avoid=tried)
            assert member.version == version, f"{member.url} serves weights {member.version}, not {version}"
            try:
                return await member.post(path, body, read)
            except HttpError:
                raise  # a refusal that stands: another server would say the same
            except PolicyError as error:
                reason = error
            log.warning("%s: %s; trying another server", member.url, reason)
            tried = {member.url} if len(tried) + 1 >= len(self._members) else {*tried, member.url}
            async with self._health_session() as session:
                if not await member.check(session):
                    await self._leave_out(member, str(reason))
                elif attempt + 1 < self._tries:
                    await asyncio.sleep(min(10.0, 0.25 * 2**attempt))  # alive but failing: loaded, or broken
        raise PolicyError(f"{path}: gave up after {self._tries} tries on {self.url}; the last: {reason}")

    async def _choose(self, *, avoid: set[str]) -> Member:
        """The living server with the fewest requests under way; one that was not tried, if there is any."""
        await self._distrust_unwatched()
        alive = await self._living()
        return min((m for m in alive if m.url not in avoid), key=_load, default=None) or min(alive, key=_load)

    async def _living(self) -> list[Member]:
        """The servers in use; waits for one where there is none. Raises `VllmServerError` when that takes too long."""
        if self._watch is not None and self._watch.done():
            self._watch.result()  # whatever ended it: nobody would take servers back
        end = time.monotonic() + self._patience
        async with self._returned:
            while not (alive := [member for member in self._members if member.alive]):
                try:
                    await asyncio.wait_for(self._returned.wait(), max(0.0, end - time.monotonic()))
                except TimeoutError:
                    raise VllmServerError(
                        f"none of the vLLM servers at {self.url} has answered for {self._patience:g} s; start one again: "
                        "work goes on where it was"
                    ) from None
        return alive

    async def _leave_out(self, member: Member, reason: str) -> None:
        if member.alive:
            log.warning("%s is left out: %s", member.url, reason)
            await member.leave()

    async def _publish(self, target: Path) -> None:
        """A server that dies meanwhile is left out; it gets them when it comes back. Raises when all fail."""
        await self._living()
        async with self._publishing:
            await self._publish_to_living(target)

    async def _publish_to_living(self, target: Path) -> None:
        members = [member for member in self._members if member.alive]
        faults = await asyncio.gather(*(m.reload(target, self.version + 1) for m in members), return_exceptions=True)
        failed = [(m, fault) for m, fault in zip(members, faults, strict=True) if fault is not None]
        for member, fault in failed:
            if member.alive and not isinstance(fault, PolicyError):  # one that left meanwhile may fail in any way
                raise fault
            await self._leave_out(member, f"it did not take weights {self.version + 1}: {fault}")
        if len(failed) == len(members):
            told = "; ".join(str(fault) for _, fault in failed) or f"none of {self.url} answers"
            raise VllmServerError(f"no server took weights {self.version + 1}: {told}")
        self.version, self._source = self.version + 1, target
        self._looked = time.monotonic()
        assert all(m.version == self.version for m in self._members if m.alive)

    async def _watch_members(self) -> None:
        """Ask every server for its health; leave the dead out, take the living back."""
        async with self._health_session() as session:
            while True:
                await asyncio.sleep(self._check_seconds)
                await self._distrust_unwatched()
                self._looked = time.monotonic()
                await asyncio.gather(*(self._look_at(member, session) for member in self._members))

    async def _look_at(self, member: Member, session: aiohttp.ClientSession) -> None:
        answers = await member.check(session)
        if member.alive and not answers:
            await self._leave_out(member, "its health check fails")
        elif answers and not member.alive and member.url not in self._returning:
            task = self._returning[member.url] = asyncio.create_task(self._take_back(member))
            task.add_done_callback(lambda _: self._returning.pop(member.url))

    async def _take_back(self, member: Member) -> None:
        """It may have started anew with other weights: give it the present ones first."""
        async with self._publishing:
            try:
                await member.join(self.version, self._source, at_least=self.max_model_len)
            except PolicyError as error:
                log.warning("%s answers but cannot be taken back: %s", member.url, error)
                return
        log.warning("%s is taken back, with weights version %d", member.url, self.version)
        async with self._returned:
            self._returned.notify_all()

    async def _distrust_unwatched(self) -> None:
        """After a while in which this process was busy with other things, any server may have died and come back."""
        unseen = time.monotonic() - self._looked
        if unseen < max(UNSEEN_SECONDS, 2 * self._check_seconds + self._health_seconds):
            return
        self._looked = time.monotonic()
        log.warning("the servers were not watched for %.0f s: all get their weights again", unseen)
        await asyncio.gather(*[member.leave() for member in self._members])


def _load(member: Member) -> int:
    return member.in_flight
