"""A stage that takes no time, in the harness of the real ones: `python toy_stage.py NAME OUT...`.

While `hold-NAME` lies in the folder it does not end, and has a child process. While `outside-NAME` does, it fails as one
whose endpoint is down, and takes the file away.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

from rlm_core.progress import Progress
from tasks.common import OutsideError, Stage, stage_main

FIGURES = {
    "judge_mean": 0.5,
    "judge_ci95": [0.4, 0.6],
    "f1_mean": 0.3,
    "format_success": 1,
    "tokens_mean": 9,
    "seconds_mean": 2,
}
EVALUATION = {"judge": "toy", "n": 4, "arms": {"grpo": {**FIGURES, "n": 4}}}


def run(stage: Stage) -> None:
    name, *outs = sys.argv[1:]
    outside = Path(f"outside-{name}")
    if outside.exists():
        outside.unlink()
        raise OutsideError("http://127.0.0.1:9/v1 does not answer")
    with Progress(name, total=4, unit="things", every_seconds=0.0) as progress:
        for _ in range(4):
            progress.advance()
    hold = Path(f"hold-{name}")
    if hold.exists():
        subprocess.Popen(["sleep", "600"])
        Path(f"holding-{name}").touch()
    while hold.exists():
        time.sleep(0.1)
    made = f"made by {name} with seed {stage.params.seed}\n"
    for out in outs:
        Path(out).parent.mkdir(parents=True, exist_ok=True)
        Path(out).write_text(json.dumps(EVALUATION) if out.endswith("evaluation.json") else made)


if __name__ == "__main__":
    stage_main(sys.argv[1], run)
