"""One function for processes and clusters: here in processes of this machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

STUBS = Path(__file__).resolve().parents[2] / "stubs"


@pytest.mark.slow
def test_every_item_gets_its_file_and_keeps_its_own_error(tmp_path):
    # The function must be importable in the workers, and the script guarded, for they are spawned.
    (tmp_path / "a.txt").write_text("text of a")
    (tmp_path / "run.py").write_text(
        f"import sys; sys.path.insert(0, {str(STUBS)!r})\n"
        "from pathlib import Path\nimport page_worker\nfrom rlm_core.fanout import spread\n"
        "if __name__ == '__main__':\n"
        f"    file = Path({str(tmp_path / 'a.txt')!r})\n"
        "    for item, out in spread(page_worker.read, [1, 13], file_of=lambda item: file, workers=2):\n"
        "        print(item, repr(out[:2]) if isinstance(out, tuple) else repr(out))\n"
    )
    done = subprocess.run(
        [sys.executable, tmp_path / "run.py"], capture_output=True, text=True, timeout=120, check=True
    )
    assert sorted(done.stdout.splitlines()) == ["1 (1, 'text of a')", "13 ValueError('13 is refused')"]
