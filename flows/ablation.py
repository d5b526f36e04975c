"""`make ablation`: the flow `ablation`, every variant with every seed in a cell of its own, then the report.

A cell that is finished is skipped, one that was cut goes on where it was: start the flow again after a crash. Size and hours:
docs/training.md.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from flows.environment import ROOT, use_local_prefect

use_local_prefect()

from prefect import flow, get_run_logger, task  # noqa: E402

from flows.dvc import stream_process  # noqa: E402
from rlm_core.ablation.variants import cell_name  # noqa: E402
from rlm_core.params import ParamsError, load_params  # noqa: E402


class CellFailed(RuntimeError):
    """A cell or the report ended with an error; the message ends with the last lines of its log."""


@flow(name="ablation", flow_run_name="ablation")
def ablation(root: Path = ROOT) -> list[str]:
    """Run all cells of `params.yaml: ablation`, one after the other, then write reports/ablation.{json,html}.

    A cell that fails does not stop the others; the flow fails at the end and names it. Returns the cells' names.
    """
    settings = load_params(root / "params.yaml").ablation
    # Seed by seed, so that a sweep that is cut has all variants of the seeds it reached.
    cells = [(variant, seed) for seed in settings.seeds for variant in settings.variants]
    parts = [(cell_name(variant, seed), ["cell", variant, str(seed)]) for variant, seed in cells]
    failed = []
    for name, arguments in [*parts, ("report", ["report"])]:
        state = run_part.with_options(name=name)(arguments, root, return_state=True)
        if not state.is_completed():
            failed.append(name)
    if failed:
        raise CellFailed(f"failed: {', '.join(failed)}; why is in the log of each one's task run. Start the flow again")
    return [name for name, _ in parts]


@task
def run_part(arguments: list[str], root: Path) -> None:
    """`python -m tasks.ablation ...`, its log streamed into this task run's."""
    logger = get_run_logger()
    command = [sys.executable, "-m", "tasks.ablation", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    code, tail = stream_process(command, root, environment, logger.info)
    if code:
        end = "\n".join(tail)
        raise CellFailed(
            f"`tasks.ablation {' '.join(arguments)}` failed with exit code {code}. The end of its log:\n{end}"
        )


def main() -> int:
    try:
        load_params(ROOT / "params.yaml")
    except ParamsError as error:
        print(error, file=sys.stderr)
        return 2
    from flows.servers import own_prefect_server

    own_prefect_server()
    try:
        ablation()
    except CellFailed as error:
        print(error, file=sys.stderr)
        return 1
    print(f"\nReport   {(ROOT / 'reports/ablation.html').as_uri()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
