"""`rlm-forge plan`, as a person uses it."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from rlm_core.cli.main import app

ROOT = Path(__file__).resolve().parents[3]


def test_a_plan_is_printed_from_a_config_without_weights(tmp_path: Path) -> None:
    from transformers import LlamaConfig

    LlamaConfig(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, vocab_size=512).save_pretrained(tmp_path)  # fmt: skip  # noqa: E501
    arguments = ["plan", "--params", str(ROOT / "profiles/gpu.yaml"), "--model", str(tmp_path), "--device", "h100"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    for part in ("147,776 parameters", "trainer", "KV cache", "4 groups x 8 trees", "200 steps"):
        assert part in result.output, part


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--device", "abacus"], "device 'abacus' is not known"),
        (["--params", "none.yaml"], "no such params file"),
        (["--params", str(ROOT / "params.yaml"), "--model", "./nowhere"], "its config cannot be read"),
    ],
)
def test_mistakes_are_told(arguments: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.yaml").write_text("{}")
    result = CliRunner().invoke(app, ["plan", *arguments])
    assert result.exit_code == 2
    assert told in result.output and "Traceback" not in result.output
