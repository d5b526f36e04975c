"""`make run`: the pipeline flow with params.yaml in this terminal, then the result table and where to look."""

from __future__ import annotations

import sys
from pathlib import Path

from rlm_core.files import read_json
from rlm_core.params import ParamsError, load_params


def main() -> int:
    try:
        load_params()  # a mistake in it is told before a server is started
    except ParamsError as error:
        print(error, file=sys.stderr)
        return 2
    from flows.environment import use_local_prefect
    from flows.servers import ServerFailed, own_prefect_server

    use_local_prefect()
    try:
        own_prefect_server()
    except ServerFailed as error:
        print(error, file=sys.stderr)
        return 1
    from flows.dvc import StageFailed
    from flows.pipeline import pipeline

    try:
        pipeline()
    except StageFailed:
        return 1  # the flow has logged it with the end of the stage's log
    from rlm_core.evaluation.table import render_table

    print()
    print(render_table(read_json(Path("reports/evaluation.json"))))
    print(f"\nReport   {Path('reports/report.html').resolve().as_uri()}")
    print("Model    models/grpo    (try: rlm-forge ask 'your question' --papers FOLDER --model models/grpo)")
    print("Runs     make ui        (MLflow and Prefect in the browser)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
