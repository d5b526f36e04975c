"""Work spread over processes that survive a bad item and die with their parent."""

from __future__ import annotations

import math
import multiprocessing
import os
import resource
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Generic, TypeVar

from rlm_core.processes import die_with_parent

Item = TypeVar("Item")
Result = TypeVar("Result")


LEAST_MEMORY = 2 << 30
"""Bytes that each process may always take, however little is free."""


class WorkerDied(RuntimeError):
    """The process that worked on this item died: a crash in a native library, out of memory, too much processor time."""


def map_processes(
    function: Callable[[Item], Result], items: Iterable[Item], *, workers: int, cpu_seconds: int | None = None
) -> Iterator[tuple[Item, Result | Exception]]:
    """Call `function` on every item in `workers` processes; yield (item, result or exception) as they finish.

    An exception belongs to its item. If a process dies, the items that were in work are tried again one at a time, and
    the one that kills its process again gets `WorkerDied`. Processes are spawned afresh, run on one thread each, and are
    killed by the kernel when this process dies, even by SIGKILL. Call from the main thread.

    A file made to exhaust the machine ends as an item's error: each process may allocate its share of the memory that is
    free now (else `MemoryError`), and an item may take `cpu_seconds` of processor time (else `WorkerDied`).
    """
    if cpu_seconds is not None:
        function = _Bounded(function, cpu_seconds)
    memory = max(LEAST_MEMORY, _free_memory() // max(1, workers))
    pending = list(items)[::-1]
    while pending:
        in_work: dict[Future[Result], Item] = {}
        with _executor(min(workers, len(pending)), memory) as executor:
            try:
                while pending or in_work:
                    while pending and len(in_work) < 2 * workers:
                        in_work[executor.submit(function, pending[-1])] = pending[-1]
                        pending.pop()
                    done, _ = wait(in_work, return_when=FIRST_COMPLETED)
                    for future in done:
                        outcome = _outcome(future)
                        if isinstance(outcome, BrokenProcessPool):
                            raise outcome
                        yield in_work.pop(future), outcome
            except BrokenProcessPool:
                pass
            except BaseException:
                executor.shutdown(wait=False, cancel_futures=True)
                raise
        for item in in_work.values():
            yield item, _alone(function, item, memory)


class _Bounded(Generic[Item, Result]):
    """`function` under a limit on processor time, which counts for native code too: the kernel ends the process."""

    def __init__(self, function: Callable[[Item], Result], cpu_seconds: int) -> None:
        self.function, self.cpu_seconds = function, cpu_seconds

    def __call__(self, item: Item) -> Result:
        hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
        soft = math.ceil(time.process_time()) + self.cpu_seconds
        resource.setrlimit(resource.RLIMIT_CPU, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))
        return self.function(item)


def _free_memory() -> int:
    """Bytes that the machine could still hand out (`MemAvailable`)."""
    with open("/proc/meminfo", encoding="ascii") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")) << 10


def _alone(function: Callable[[Item], Result], item: Item, memory: int) -> Result | Exception:
    with _executor(1, memory) as executor:
        try:
            outcome = _outcome(executor.submit(function, item))
        except BrokenProcessPool as error:
            outcome = error
        if isinstance(outcome, BrokenProcessPool):
            return WorkerDied("its process died twice: a crash, too much processor time, or out of memory")
        return outcome


def _outcome(future: Future[Result]) -> Result | Exception:
    try:
        return future.result()
    except Exception as error:  # noqa: BLE001 - handed to the caller as the item's outcome
        return error


def _executor(workers: int, memory: int) -> ProcessPoolExecutor:
    context = multiprocessing.get_context("spawn")
    given = (os.getpid(), memory)
    return ProcessPoolExecutor(max(1, workers), mp_context=context, initializer=_start_worker, initargs=given)


def _start_worker(parent: int, memory: int) -> None:
    """Die with the parent, leave Ctrl-C to it, keep to one thread of native libraries and to `memory` bytes of own data."""
    for kind, bound in ((resource.RLIMIT_DATA, memory), (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(kind)[1]
        bound = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
        resource.setrlimit(kind, (bound, hard))
    die_with_parent()
    if os.getppid() != parent:  # it was gone before
        os.kill(os.getpid(), signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_THREAD_LIMIT"):
        os.environ[variable] = "1"
