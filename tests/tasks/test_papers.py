"""Stage `papers`: the three sources, what is left out and why."""

from __future__ import annotations

import errno
import hashlib
import http.server
import os
import shutil
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "stubs"))  # for `pdfs`, `quiet`
import pdfs
from quiet import quiet_stage

from rlm_core.files import read_jsonl, write_jsonl
from rlm_core.params import validate_params
from tasks import papers
from tasks.common import StageError
from tasks.faults import fault_of


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


def run(**section: object) -> list[dict]:
    stage = quiet_stage("papers", validate_params({"papers": section}))
    papers.run(stage)
    rows = list(read_jsonl(Path("data/papers/manifest.jsonl")))
    kept = [row for row in rows if "problem" not in row]
    assert (stage.metrics["papers"], stage.metrics["papers_left_out"]) == (len(kept), len(rows) - len(kept))
    for row in kept:
        assert hashlib.sha256((Path("data/papers") / row["file"]).read_bytes()).hexdigest() == row["sha256"]
    assert {p.name for p in Path("data/papers").iterdir()} == {"manifest.jsonl", *(row["file"] for row in kept)}
    return rows


def test_the_sample_library_is_the_default():
    rows = run(source="sample", sample_topics=3, sample_papers_per_topic=1)
    assert len(rows) == 3
    assert {row["source"] for row in rows} == {"sample"}
    assert run(source="sample", sample_topics=3, sample_papers_per_topic=1, max_papers=2) == rows[:2]


def test_a_folder_of_pdfs_bad_files_and_duplicates(workspace):
    folder = workspace / "mine"
    (folder / "old").mkdir(parents=True)
    good, other = pdfs.make_pdf(pdfs.article(1)), pdfs.make_pdf(pdfs.article(2))
    files = {"a.pdf": good, "b.pdf": b"<html>", "c.pdf": b"", "old/a.pdf": other, "old/copy.pdf": good}
    for name, data in files.items():
        (folder / name).write_bytes(data)
    rows = {row["id"]: row for row in run(source="directory", directory=str(folder))}
    assert {key: row.get("problem") for key, row in rows.items()} == {
        "a": None,
        "a-2": None,
        "b": "not-a-pdf",
        "c": "empty",
        "copy": "duplicate",
    }
    assert rows["copy"]["remedy"] == "the same file is there as a: remove one"
    assert Path(rows["a-2"]["source"]).name == "a.pdf"


def test_a_manifest_is_downloaded_once(workspace):
    site = workspace / "site"
    site.mkdir()
    data = pdfs.make_pdf(pdfs.article())
    (site / "one.pdf").write_bytes(data)
    asked: list[str] = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, message: str, *args: object) -> None:
            asked.append(self.path)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(site)))
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        base = f"http://127.0.0.1:{server.server_port}"
        listed = [
            {
                "url": f"{base}/one.pdf",
                "sha256": hashlib.sha256(data).hexdigest(),
                "title": "One",
                "licence": "CC0-1.0",
            },
            {"url": f"{base}/gone.pdf", "sha256": "0" * 64},
        ]
        write_jsonl(workspace / "list.jsonl", listed)
        for _ in range(2):
            rows = {row["id"]: row for row in run(source="manifest", manifest=str(workspace / "list.jsonl"))}
            assert (rows["one"]["title"], rows["one"]["licence"]) == ("One", "CC0-1.0")
            assert rows["gone"]["problem"] == "download"
            assert "status 404" in rows["gone"]["remedy"]
    finally:
        server.shutdown()
        server.server_close()
    assert asked.count("/one.pdf") == 1  # the second run took it from the cache


def test_no_usable_pdf_stops_the_stage_and_keeps_what_was_there(workspace):
    Path("data/papers").mkdir(parents=True)
    Path("data/papers/before.pdf").write_bytes(b"x")
    folder = workspace / "mine"
    folder.mkdir()
    with pytest.raises(StageError, match=r"no \*\.pdf file below"):
        run(source="directory", directory=str(folder))
    (folder / "bad.pdf").write_bytes(b"")
    with pytest.raises(StageError, match=r"no usable PDF in papers\.source 'directory': 1 empty"):
        run(source="directory", directory=str(folder))
    assert [p.name for p in Path("data/papers").iterdir()] == ["before.pdf"]
    assert [p.name for p in Path("data").iterdir()] == ["papers"]


def test_a_name_that_is_no_utf8_can_be_told(workspace):
    (workspace / "mine").mkdir()
    Path(os.fsdecode(os.fsencode(workspace) + b"/mine/a\xff.pdf")).write_bytes(pdfs.make_pdf(pdfs.article(1)))
    (row,) = run(source="directory", directory=str(workspace / "mine"))
    assert row["source"].endswith("a\ufffd.pdf")


def test_a_full_disk_is_no_fault_of_a_paper(workspace, monkeypatch):
    """It stops the stage, which tells where; a paper that vanished or may not be read is left out."""
    (workspace / "mine").mkdir()
    for n in (1, 2):
        (workspace / "mine" / f"{n}.pdf").write_bytes(pdfs.make_pdf(pdfs.article(n)))
    copy = shutil.copyfile

    def refuse(number: int, only: str):
        def copyfile(source, target):
            if Path(source).name == only or not only:
                raise OSError(number, os.strerror(number), str(target))
            return copy(source, target)

        return copyfile

    for number in (errno.EACCES, errno.ENOENT):
        monkeypatch.setattr(shutil, "copyfile", refuse(number, "1.pdf"))
        rows = run(source="directory", directory=str(workspace / "mine"))
        assert [row.get("problem") for row in rows] == ["unreadable", None]
    monkeypatch.setattr(shutil, "copyfile", refuse(errno.ENOSPC, ""))
    with pytest.raises(OSError, match="No space left") as error:
        run(source="directory", directory=str(workspace / "mine"))
    assert "make room, then run again" in (fault_of(error.value) or "")
    assert len(list(read_jsonl(Path("data/papers/manifest.jsonl")))) == 2  # of the run before
