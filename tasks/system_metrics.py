"""Load, memory, disk, network and GPUs of the machine as curves of a run, measured by MLflow's own monitors."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

log = logging.getLogger("rlm.system")

Tell = Callable[[Mapping[str, float], int], None]


@contextlib.contextmanager
def system_metrics(tell: Tell, seconds: float) -> Iterator[None]:
    """Call `tell(figures, number of the sample)` every `seconds` inside the block, and once at its end; 0: never."""
    if not seconds:
        yield
        return
    end = threading.Event()
    thread = threading.Thread(target=_watch, args=(tell, seconds, end), name="system-metrics", daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join(10.0)


def _watch(tell: Tell, seconds: float, end: threading.Event) -> None:
    monitors = _monitors()
    number = 0
    while True:
        last = end.wait(seconds)
        for monitor in monitors:
            monitor.collect_metrics()
        figures = {f"system/{k}": float(v) for monitor in monitors for k, v in monitor.aggregate_metrics().items()}
        for monitor in monitors:
            monitor.clear_metrics()
        tell(figures, number)
        number += 1
        if last:
            return


def _monitors() -> list[Any]:
    from mlflow.system_metrics.metrics.cpu_monitor import CPUMonitor
    from mlflow.system_metrics.metrics.disk_monitor import DiskMonitor
    from mlflow.system_metrics.metrics.gpu_monitor import GPUMonitor
    from mlflow.system_metrics.metrics.network_monitor import NetworkMonitor

    monitors: list[Any] = [CPUMonitor(), DiskMonitor(), NetworkMonitor()]
    try:
        monitors.append(GPUMonitor())
    except Exception as error:  # noqa: BLE001 - no driver, no library or no GPU: each has an error of its own
        log.debug("no GPU is watched: %s", error)
    return monitors
