"""`rlm-forge papers groups`: neighbours outside the group and near-duplicates stand out."""

from __future__ import annotations

from typer.testing import CliRunner

from rlm_core.cli.main import app
from rlm_core.files import write_json

REPORT = {
    "figures": {"groups": 2, "silhouette": None, "neighbour_agreement": 0.6667},
    "groups": [
        {
            "id": "g000",
            "paper_ids": ["a", "b"],
            "key_words": ["rye", "soil"],
            "papers": [
                {"id": "a", "title": "On rye", "nearest": "b", "similarity": 0.81},
                {"id": "b", "title": "On [soil]", "nearest": "c", "similarity": 0.42},
            ],
        },
        {"id": "g001", "paper_ids": ["c"], "key_words": [], "papers": [
            {"id": "c", "title": "Stars", "nearest": None, "similarity": 0.0}]},
    ],
    "near_duplicates": [{"papers": ["a", "b"], "shared": 0.934}],
}  # fmt: skip


def test_groups(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    assert CliRunner().invoke(app, ["papers", "groups"]).exit_code == 2
    write_json(tmp_path / "reports/groups.json", REPORT)
    shown = CliRunner().invoke(app, ["papers", "groups"])
    assert shown.exit_code == 0, shown.output
    assert "b: On [soil]" in shown.output
    assert "c (other group)" in shown.output and "b (other group)" not in shown.output
    assert "nearly the same text: a and b share 93%" in shown.output
    assert "neighbour agreement: 0.667" in shown.output and "silhouette: -" in shown.output
