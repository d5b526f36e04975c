"""Stage `ocr`: pages are read by RapidOCR in processes, kept one by one, and never read twice."""

from __future__ import annotations

import http.server
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "stubs"))  # for `pdfs`, `quiet`
import pdfs
from quiet import quiet_stage

from rlm_core.files import read_json, sha256_file, write_json, write_jsonl
from rlm_core.papers import load_library
from rlm_core.params import validate_params
from tasks import ocr
from tasks.common import StageError

ROOT = Path(__file__).resolve().parents[2]
RUN = [sys.executable, str(ROOT / "tests/stubs/quiet.py"), "ocr"]


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("params.yaml").write_text("ocr: {workers: 2, dpi: 100}\n")
    return tmp_path


def put(files: dict[str, bytes]) -> None:
    folder = Path("data/papers")
    folder.mkdir(parents=True)
    for name, data in files.items():
        (folder / f"{name}.pdf").write_bytes(data)
    write_jsonl(
        folder / "manifest.jsonl",
        [{"id": n, "file": f"{n}.pdf", "sha256": sha256_file(folder / f"{n}.pdf"), "source": "test"} for n in files],
    )


def run(**section: object) -> dict[str, float]:
    stage = quiet_stage("ocr", validate_params({"ocr": {"workers": 2, "dpi": 100, **section}}))
    ocr.run(stage)
    return stage.metrics


@pytest.mark.slow
def test_good_and_bad_files_are_accounted_for_and_a_second_run_reads_nothing(monkeypatch):
    short = [[(60, 60, 20, "Rye on wet land"), (60, 120, 11, "Rye was sown late and it grew well in spite of it.")]]
    put(
        {
            "good": pdfs.make_pdf([*short, [(60, 80, 11, "The second page has one sentence about barley.")]]),
            "locked": pdfs.encrypted_pdf(short),
            "blank": pdfs.image_only_pdf(),
        }
    )
    metrics = run()
    assert (metrics["papers"], metrics["pages"], metrics["skipped"]) == (1, 2, 2)
    assert (metrics["skipped_encrypted"], metrics["skipped_no_text"]) == (1, 1)
    assert metrics["pages_per_second"] > 0
    report = read_json(Path("reports/ocr.json"))
    assert report["engine"].startswith("rapidocr 3.")
    paper = load_library("data/ocr")["good"]
    assert paper.title == "Rye on wet land"
    assert "The second page has one sentence about barley." in paper.text
    assert (paper.mode, paper.provenance["dpi"]) == ("ocr", 100)

    monkeypatch.setattr(ocr, "spread", lambda function, items, **_: iter([]) if not items else 1 / 0)
    assert run()["pages_per_second"] == 0
    assert read_json(Path("reports/ocr.json")) == report
    with pytest.raises(ZeroDivisionError):
        run(dpi=120)  # other settings, other pages


def test_engines_that_cannot_work_stop_the_stage(monkeypatch):
    put({"good": pdfs.make_pdf(pdfs.article())})
    monkeypatch.setattr("shutil.which", lambda program: None)
    with pytest.raises(StageError, match="apt-get install tesseract-ocr"):
        run(engine="tesseract")


def test_no_readable_pdf_stops_the_stage():
    put({"locked": pdfs.encrypted_pdf(pdfs.article())})
    with pytest.raises(StageError, match="none of 1 PDFs could be read"):
        run()
    assert read_json(Path("reports/ocr.json"))["papers"][0]["kind"] == "encrypted"


@pytest.mark.slow
def test_a_killed_run_goes_on_with_the_next_page(workspace):
    pages = [
        [(60, 60, 16, f"Page {n} of a paper on rye"), (60, 120, 11, f"It says {n} times that rye grew.")]
        for n in range(14)
    ]
    put({"long": pdfs.make_pdf(pages)})
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(RUN, env=environment)
    cache = workspace / ".cache/ocr"
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and len(list(cache.glob("*/[0-9]*.json"))) < 2:
        assert process.poll() is None, "it finished before it could be killed"
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    time.sleep(0.5)  # workers are killed by the kernel; a page may still be renamed before that
    done = {path: path.stat().st_mtime_ns for path in cache.glob("*/[0-9]*.json")}
    assert 2 <= len(done) < 14
    subprocess.run(RUN, env=environment, check=True, timeout=120)
    assert len(load_library("data/ocr")["long"].pages) == 14
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in done.items())


class _Surya(http.server.BaseHTTPRequestHandler):
    """Speaks surya's protocol: one model, and one block of text for any page, after a while. Counts the pages."""

    pages = 0

    def do_GET(self) -> None:
        self._answer({"data": [{"id": "surya-2"}]})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(0.3)
        type(self).pages += 1
        html = '<div data-label="Text" data-bbox="100 100 900 200">Rye grew well on wet land.</div>'
        self._answer({"choices": [{"message": {"content": html}, "finish_reason": "stop"}]})

    def _answer(self, body: dict) -> None:
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.proof
def test_pages_are_read_on_a_cluster_that_loses_a_node_and_never_read_twice(monkeypatch):
    """Two nodes of one processor each; one is killed after five pages of 24. A second run asks for no page."""
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    put({f"paper{n}": pdfs.make_pdf([[(60, 60, 16, f"Page {k} of {n}")] for k in range(12)]) for n in range(2)})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Surya)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    memory = {"object_store_memory": 100_000_000}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **memory})
    try:
        nodes = [cluster.add_node(num_cpus=1, **memory) for _ in range(2)]

        def write(path: Path, row: object) -> None:
            write_json(path, row)
            if len(nodes) == 2 and len(list(Path(".cache/ocr").glob("*/[0-9]*.json"))) == 5:
                cluster.remove_node(nodes.pop(), allow_graceful=False)

        monkeypatch.setattr(ocr, "write_json", write)
        url = f"http://127.0.0.1:{server.server_port}/v1"
        section = {"engine": "surya", "surya_url": url, "executor": "ray", "ray_address": cluster.address}
        assert run(**section)["pages"] == 24
        assert len(nodes) == 1, "no node was killed"
        library = load_library("data/ocr")
        assert [len(library[f"paper{n}"].pages) for n in range(2)] == [12, 12]
        assert 24 <= _Surya.pages <= 24 + 2  # the dead node's page, and one that waited on it, may be asked for again
        asked = _Surya.pages
        assert run(**section)["pages"] == 24
        assert _Surya.pages == asked
    finally:
        cluster.shutdown()
        server.shutdown()
