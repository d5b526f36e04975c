"""Stage `parse`: every PDF accounted for, bad ones skipped with a reason, nothing done twice, not even after kill -9."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "stubs"))  # for `pdfs`, `quiet`
import pdfs
from quiet import quiet_stage

from rlm_core.files import read_json, sha256_file, write_jsonl
from rlm_core.papers import load_library, parse_pdf
from rlm_core.params import validate_params
from tasks import parse
from tasks.common import StageError

ROOT = Path(__file__).resolve().parents[2]
RUN = [sys.executable, str(ROOT / "tests/stubs/quiet.py"), "parse"]


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("params.yaml").write_text("parse: {workers: 2}\n")
    return tmp_path


def put(files: dict[str, bytes], *, problems: tuple[dict, ...] = ()) -> None:
    folder = Path("data/papers")
    folder.mkdir(parents=True)
    rows = []
    for name, data in files.items():
        (folder / f"{name}.pdf").write_bytes(data)
        rows.append(
            {"id": name, "file": f"{name}.pdf", "sha256": sha256_file(folder / f"{name}.pdf"), "source": "test"}
        )
    write_jsonl(folder / "manifest.jsonl", [*rows, *problems])


def run() -> dict[str, float]:
    stage = quiet_stage("parse", validate_params({"parse": {"workers": 2}}))
    parse.run(stage)
    return stage.metrics


def test_good_and_bad_files_are_accounted_for():
    put(
        {
            "good": pdfs.make_pdf(pdfs.article(1, pages=2)),
            "locked": pdfs.encrypted_pdf(pdfs.article()),
            "scan": pdfs.image_only_pdf(),
            "torn": pdfs.make_pdf(pdfs.article())[:300],
        },
        problems=({"id": "web", "file": "web.pdf", "source": "x", "problem": "not-a-pdf", "remedy": "remove it"},),
    )
    metrics = run()
    assert (metrics["papers"], metrics["pages"], metrics["skipped"]) == (1, 2, 4)
    assert {k: v for k, v in metrics.items() if k.startswith("skipped_")} == {
        "skipped_encrypted": 1,
        "skipped_no_text": 1,
        "skipped_truncated": 1,
        "skipped_not_a_pdf": 1,
    }
    report = read_json(Path("reports/papers.json"))
    assert [row["id"] for row in report["papers"]] == ["good", "locked", "scan", "torn", "web"]
    assert all(row["remedy"] for row in report["papers"] if row["status"] == "skipped")
    library = load_library("data/parsed")
    assert library == {"good": parse_pdf("data/papers/good.pdf")}
    assert library["good"].mode == "noisy"


def test_a_second_run_reads_nothing_again(monkeypatch):
    put({f"p{n}": pdfs.make_pdf(pdfs.article(n)) for n in range(3)})
    run()
    first = {path.name: path.read_bytes() for path in Path("data/parsed").iterdir()}
    monkeypatch.setattr(parse, "map_processes", lambda function, items, **_: iter([]) if not items else 1 / 0)
    report = Path("reports/papers.json").read_bytes()
    metrics = run()
    assert metrics["pages_per_second"] == 0
    assert {path.name: path.read_bytes() for path in Path("data/parsed").iterdir()} == first
    assert Path("reports/papers.json").read_bytes() == report


def test_damaged_caches_are_read_anew_and_cost_no_other(caplog):
    put({f"p{n}": pdfs.make_pdf(pdfs.article(n)) for n in range(4)})
    run()
    first = {path.name: path.read_bytes() for path in Path("data/parsed").iterdir()}
    kept = sorted(Path(".cache/parse").glob("*.json"))
    for path, damage in zip(kept, (b"", path_half(kept[1]), b'{"id": "p", "pages": 3}'), strict=False):
        path.write_bytes(damage)
    run()
    assert {path.name: path.read_bytes() for path in Path("data/parsed").iterdir()} == first
    assert caplog.text.count("is damaged and is made again") == 3


def path_half(path: Path) -> bytes:
    return path.read_bytes()[: path.stat().st_size // 2]


def test_nothing_readable_stops_the_stage():
    put({"scan": pdfs.image_only_pdf()})
    with pytest.raises(StageError, match="none of 1 PDFs has a text layer"):
        run()
    assert read_json(Path("reports/papers.json"))["papers"][0]["kind"] == "no-text"


def test_without_papers_the_stage_names_the_one_before():
    with pytest.raises(StageError, match="stage 'papers' makes it"):
        run()


@pytest.mark.slow
def test_a_killed_run_is_resumed_and_leaves_no_worker(workspace):
    put({f"p{n}": pdfs.make_pdf(pdfs.article(n, pages=16)) for n in range(8)})
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(RUN, env=environment, start_new_session=True)
    cache = workspace / ".cache/parse"
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and len(list(cache.glob("[0-9a-f]*.json"))) < 2:
        assert process.poll() is None, "it finished before it could be killed; give it more pages"
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    done = {path.name: path.stat().st_mtime_ns for path in cache.glob("[0-9a-f]*.json")}
    assert 2 <= len(done) < 8
    assert not Path("data/parsed").exists()
    deadline = time.monotonic() + 10
    while _members(process.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert _members(process.pid) == []
    subprocess.run(RUN, env=environment, check=True, timeout=120)
    assert len(load_library("data/parsed")) == 8
    assert all((cache / name).stat().st_mtime_ns == stamp for name, stamp in done.items())


def _members(session: int) -> list[int]:
    """Living processes of a session."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(entry.name))
    return found
