"""The flow `ablation`: a part that fails does not stop the others, and all of them are named."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml


@pytest.mark.proof
def test_parts_that_fail_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    from prefect.testing.utilities import prefect_test_harness

    from flows.ablation import CellFailed, ablation

    fields = {"variants": ["sft_only", "inherit"], "seeds": [0]}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump({"ablation": fields}))
    # Without models/sft no cell can run, and without a cell there is no report.
    with prefect_test_harness(server_startup_timeout=120), pytest.raises(CellFailed) as failure:
        ablation(tmp_path)
    assert "sft_only-seed0, inherit-seed0, report" in str(failure.value)
