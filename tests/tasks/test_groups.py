"""Stage `groups`: papers that both readers could read, each in one group."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "stubs"))  # for `quiet`
from quiet import quiet_stage

from rlm_core.files import read_json, read_jsonl, write_json
from rlm_core.papers import Paper
from rlm_core.params import validate_params
from tasks import groups
from tasks.common import StageError

TOPICS = {"soil": "soil carbon roots tillage rye compost", "star": "star galaxy telescope redshift photon orbit"}


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def put(folder: str, ids: list[str]) -> None:
    for paper_id in ids:
        words = TOPICS[paper_id.rstrip("0123456789")].split()
        start = int(paper_id[-1])
        text = " ".join(Random(start).choices(words, k=40))
        write_json(Path(folder) / f"{paper_id}.json", Paper(paper_id, f"On {words[start]}", pages=(text,)).to_dict())


def run(**section: object) -> tuple[list[dict], dict[str, float]]:
    stage = quiet_stage("groups", validate_params({"groups": section}))
    groups.run(stage)
    return list(read_jsonl(Path("data/groups.jsonl"))), stage.metrics


def test_papers_read_by_both_are_grouped():
    put("data/parsed", ["soil1", "soil2", "soil3", "star1", "star2", "star3"])
    put("data/ocr", ["soil1", "soil2", "star1", "star2", "star4"])
    rows, metrics = run()
    assert [row["paper_ids"] for row in rows] == [["soil1", "soil2"], ["star1", "star2"]]
    assert [row["id"] for row in rows] == ["g000", "g001"]
    assert set(rows[0]["key_words"]) <= set(TOPICS["soil"].split())
    assert (metrics["groups"], metrics["papers"], metrics["left_out"], metrics["neighbour_agreement"]) == (2, 4, 3, 1.0)
    report = read_json(Path("reports/groups.json"))
    assert report["groups"][0]["papers"][0] == {
        "id": "soil1", "title": "On carbon", "nearest": "soil2", "similarity": report["groups"][0]["papers"][0]["similarity"]
    }  # fmt: skip
    assert report["figures"]["groups"] == 2
    assert run()[0] == rows


def test_near_duplicates_are_named():
    put("data/parsed", ["soil1", "star1"])
    put("data/ocr", ["soil1", "star1"])
    for folder in ("data/parsed", "data/ocr"):
        twin = Paper("twin", "On roots", pages=(Paper.from_dict(read(folder, "soil1")).text,))
        write_json(Path(folder) / "twin.json", twin.to_dict())
    rows, metrics = run()
    assert metrics["near_duplicates"] == 1
    assert [row["duplicates"] for row in rows] == [["soil1", "twin"], []]
    assert read_json(Path("reports/groups.json"))["near_duplicates"] == [{"papers": ["soil1", "twin"], "shared": 1.0}]


def read(folder: str, paper_id: str) -> dict:
    return dict(read_json(Path(folder) / f"{paper_id}.json"))


def test_no_common_paper_stops_the_stage():
    put("data/parsed", ["soil1"])
    put("data/ocr", ["star1"])
    with pytest.raises(StageError, match=r"no paper was read by both parse \(1 papers\) and ocr \(1\)"):
        run()


def test_a_missing_folder_names_its_stage():
    with pytest.raises(StageError, match="stage 'parse' makes it"):
        run()
