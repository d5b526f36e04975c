"""A Ray cluster: items one at a time to whatever processor is free, again elsewhere when its node dies."""

from __future__ import annotations

import hashlib
import os
import socket
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from rlm_core.fanout import ClusterError
from rlm_core.fanout.local import WorkerDied

Item = TypeVar("Item")

ATTEMPTS = 4
"""Processes that an item may lose, to a node that dies or to its own crash, before it counts as `WorkerDied`."""
CONNECT_SECONDS = 15


def map_cluster(
    function: Callable[[Item, Path], Any],
    items: Iterable[Item],
    *,
    file_of: Callable[[Item], Path],
    address: str | None,
) -> Iterator[tuple[Item, Any]]:
    """As `rlm_core.fanout.spread`. Twice as many items as processors are in work or wait for one; the rest stay here.

    Each file is sent to the cluster once and to each node once. A node that dies loses nothing: its items are worked
    again on another, and files are kept by this process's node. Disconnects when done, or when the caller stops taking.
    """
    waiting = iter(items)
    first = next(waiting, None)
    if first is None:
        return
    ray = _connect(address)
    files: dict[Path, Any] = {}
    in_work: dict[Any, tuple[Item, Path]] = {}
    try:
        task = ray.remote(_work).options(max_retries=ATTEMPTS - 1, num_cpus=1, scheduling_strategy="SPREAD")
        following: Item | None = first
        while following is not None or in_work:
            while following is not None and len(in_work) < 2 * max(1, int(ray.cluster_resources().get("CPU", 0))):
                path = file_of(following)
                if path not in files:
                    kept = {used for _, used in in_work.values()}
                    files = {p: ref for p, ref in files.items() if p in kept}
                    files[path] = ray.put((path.read_bytes(), path.name))
                in_work[task.remote(function, following, files[path])] = (following, path)
                following = next(waiting, None)
            done, _ = ray.wait(list(in_work), num_returns=1)
            for ref in done:
                item, _ = in_work.pop(ref)
                yield item, _outcome(ray, ref)
    finally:
        for ref in in_work:
            ray.cancel(ref, force=True)
        ray.shutdown()


def _connect(address: str | None) -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        raise ClusterError(f"the executor 'ray' needs the package of that name ({error}): run `make setup`") from error
    import rlm_core

    if ray.is_initialized():
        raise ClusterError("this process is connected to a Ray cluster already: disconnect it with ray.shutdown()")
    try:
        _knock(address)
        ray.init(
            address=address or "auto",
            log_to_driver=False,
            logging_level="error",
            configure_logging=False,
            runtime_env={"py_modules": [rlm_core]},
        )
    except Exception as error:
        raise ClusterError(
            f"no Ray cluster at {address or 'RAY_ADDRESS or on this machine'} ({type(error).__name__}: {str(error)[:200]}); "
            "start one (`ray start --head`, then `ray start --address=HOST:6379` on the other machines), "
            "set its address, or use the executor 'local'"
        ) from error
    return ray


def _knock(address: str | None) -> None:
    """Raise OSError where nothing listens; Ray itself would try for seven minutes."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()


def _outcome(ray: Any, ref: Any) -> Any:
    errors = ray.exceptions
    try:
        good, value = ray.get(ref)
    except (errors.WorkerCrashedError, errors.NodeDiedError, errors.OutOfMemoryError, errors.ObjectLostError) as error:
        return WorkerDied(f"{ATTEMPTS} processes died on it: {str(error)[:300]}")
    except errors.RayTaskError as error:  # the result or the exception cannot be pickled
        return RuntimeError(str(error)[-300:])
    except (errors.RaySystemError, ConnectionError) as error:
        raise ClusterError(f"the Ray cluster was lost ({str(error)[:200]}); run again: what is done is kept") from error
    if not good and not isinstance(value, Exception):
        raise TypeError(f"an outcome that is no exception: {value!r}")
    return value


def _work(function: Callable[[Any, Path], Any], item: Any, file: tuple[bytes, str]) -> tuple[bool, Any]:
    """On the cluster: whether it went well, and the result or the exception."""
    content, name = file
    try:
        return True, function(item, _copy(hashlib.sha256(content).hexdigest(), content, name))
    except Exception as error:  # noqa: BLE001 - handed to the caller as the item's outcome
        return False, error


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Removed when the worker process ends."""
    return tempfile.TemporaryDirectory(prefix="rlm-forge-")


def _copy(digest: str, content: bytes, name: str) -> Path:
    """The file on this node's disk. A worker keeps the last one only."""
    path = Path(_folder().name) / digest / name
    if not path.exists():
        for old in Path(_folder().name).glob("*/*"):
            old.unlink()
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    return path
