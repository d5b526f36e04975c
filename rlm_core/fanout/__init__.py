"""The same function over many items, in processes of this machine or on a Ray cluster, with one way to take the results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, TypeVar

from rlm_core.fanout.local import WorkerDied, map_processes

__all__ = ["ClusterError", "ExecutorName", "WorkerDied", "map_processes", "spread"]

Item = TypeVar("Item")
ExecutorName = Literal["local", "ray"]


class ClusterError(RuntimeError):
    """The cluster cannot be reached, or was lost; the message says what to do. What was yielded before stays done."""


def spread(
    function: Callable[[Item, Path], Any],
    items: Iterable[Item],
    *,
    file_of: Callable[[Item], Path],
    executor: ExecutorName = "local",
    workers: int = 1,
    cpu_seconds: int | None = None,
    address: str | None = None,
) -> Iterator[tuple[Item, Any]]:
    """Call `function(item, file)` on every item somewhere; yield (item, result or exception) as they finish.

    `file` holds the bytes of `file_of(item)`: the file itself, or a copy of it on another machine. An exception belongs to
    its item; an item whose process keeps dying gets `WorkerDied`. `local`: `workers` processes of this machine,
    within the bounds that `map_processes` tells. `ray`: all processors of the cluster at `address` (host:port,
    ray://host:port; None for the one that RAY_ADDRESS names or that runs on this machine), bounded by the cluster's own
    rules. The function, items and results travel pickled; the code of `rlm_core` goes along.
    """
    if executor == "ray":
        from rlm_core.fanout.cluster import map_cluster

        yield from map_cluster(function, items, file_of=file_of, address=address)
        return
    calls = {(item, file_of(item)): item for item in items}
    for call, outcome in map_processes(_Call(function), calls, workers=workers, cpu_seconds=cpu_seconds):
        yield calls[call], outcome


class _Call:
    """`function` on a pair (item, file)."""

    def __init__(self, function: Callable[[Any, Path], Any]) -> None:
        self.function = function

    def __call__(self, pair: tuple[Any, Path]) -> Any:
        return self.function(*pair)
