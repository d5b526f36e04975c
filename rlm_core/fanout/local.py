"""Work spread over processes that survive a bad item and die with their parent."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from rlm_core.processes import die_with_parent

Item = TypeVar("Item")
Result = TypeVar("Result")


class WorkerDied(RuntimeError):
    """The process that worked on this item died (a crash in a native library, or out of memory)."""


def map_processes(
    function: Callable[[Item], Result], items: Iterable[Item], *, workers: int
) -> Iterator[tuple[Item, Result | Exception]]:
    """Call `function` on every item in `workers` processes; yield (item, result or exception) as they finish.

    An exception belongs to its item. If a process dies, the items that were in work are tried again one at a time, and
    the one that kills its process again gets `WorkerDied`. Processes are spawned afresh, run on one thread each, and are
    killed by the kernel when this process dies, even by SIGKILL. Call from the main thread.
    """
    pending = list(items)[::-1]
    while pending:
        in_work: dict[Future[Result], Item] = {}
        with _executor(min(workers, len(pending))) as executor:
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
            yield item, _alone(function, item)


def _alone(function: Callable[[Item], Result], item: Item) -> Result | Exception:
    with _executor(1) as executor:
        try:
            outcome = _outcome(executor.submit(function, item))
        except BrokenProcessPool as error:
            outcome = error
        return WorkerDied(f"its process died: {outcome}") if isinstance(outcome, BrokenProcessPool) else outcome


def _outcome(future: Future[Result]) -> Result | Exception:
    try:
        return future.result()
    except Exception as error:  # noqa: BLE001 - handed to the caller as the item's outcome
        return error


def _executor(workers: int) -> ProcessPoolExecutor:
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(max(1, workers), mp_context=context, initializer=_start_worker, initargs=(os.getpid(),))


def _start_worker(parent: int) -> None:
    """Die with the parent, leave Ctrl-C to it, and keep native libraries to one thread."""
    die_with_parent()
    if os.getppid() != parent:  # it was gone before
        os.kill(os.getpid(), signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_THREAD_LIMIT"):
        os.environ[variable] = "1"
