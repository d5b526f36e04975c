"""Folders, manifests and downloads; the server is a real one on the loopback."""

from __future__ import annotations

import hashlib
import http.server
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from rlm_core.papers.sources import (
    MAX_ID,
    Source,
    SourceError,
    check,
    download,
    from_directory,
    from_manifest,
    shown,
    unique_ids,
)

DATA = b"%PDF-1.4 " + bytes(range(256)) * 2000 + b"\n%%EOF\n"
SHA = hashlib.sha256(DATA).hexdigest()


@dataclass
class Server:
    """Answers each request by the next step: "ok", "cut" (half the body), or a status."""

    url: str = ""
    steps: list[str] = field(default_factory=list)
    ranges: list[str] = field(default_factory=list)


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            step = state.steps.pop(0) if state.steps else "ok"
            wanted = self.headers.get("Range", "")
            state.ranges.append(wanted)
            if step.isdigit():
                self.send_response(int(step))
                self.send_header("Retry-After", "7")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
            body = DATA[start:]
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: len(body) // 2] if step == "cut" else body)

        def log_message(self, *args: object) -> None:
            pass

    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    state.url = f"http://127.0.0.1:{running.server_port}/paper.pdf"
    yield state
    running.shutdown()
    running.server_close()


def test_a_cut_download_is_resumed_where_it_stopped(server, tmp_path):
    server.steps = ["cut", "ok"]
    target = tmp_path / "a.pdf"
    download(Source("a", server.url, SHA), target, wait=lambda seconds: None)
    assert target.read_bytes() == DATA
    first, second = server.ranges
    kept = int(second.removeprefix("bytes=").rstrip("-"))
    # Half of the file came; what was written of it are whole blocks of 64 KiB.
    assert first == "" and 0 < kept <= len(DATA) // 2 and kept % (1 << 16) == 0
    assert not list(tmp_path.glob("*.part"))


def test_a_finished_file_is_not_fetched_again(server, tmp_path):
    (tmp_path / "a.pdf").write_bytes(DATA)
    download(Source("a", server.url, SHA), tmp_path / "a.pdf")
    assert server.ranges == []


def test_busy_servers_are_waited_for_as_they_ask(server, tmp_path):
    server.steps = ["429", "503", "ok"]
    waits: list[float] = []
    download(Source("a", server.url, SHA), tmp_path / "a.pdf", wait=waits.append)
    assert waits == [7.0, 7.0]


def test_a_wrong_checksum_is_an_error_and_leaves_nothing(server, tmp_path):
    with pytest.raises(SourceError, match=r"sha256 is .*, expected 0000"):
        download(Source("a", server.url, "0" * 64), tmp_path / "a.pdf", wait=lambda seconds: None)
    assert list(tmp_path.iterdir()) == []


def test_a_stale_part_is_thrown_away_and_fetched_anew(server, tmp_path):
    (tmp_path / "a.pdf.part").write_bytes(b"x" * 100)
    download(Source("a", server.url, SHA), tmp_path / "a.pdf", wait=lambda seconds: None)
    assert (tmp_path / "a.pdf").read_bytes() == DATA
    assert server.ranges == ["bytes=100-", ""]


def test_a_missing_page_is_not_tried_again(server, tmp_path):
    server.steps = ["404"]
    with pytest.raises(SourceError, match="status 404; check the address"):
        download(Source("a", server.url, SHA), tmp_path / "a.pdf")
    assert len(server.ranges) == 1


def test_an_unreachable_server_gives_up_after_the_attempts(tmp_path):
    waits: list[float] = []
    source = Source("a", "http://127.0.0.1:9/a.pdf", SHA)
    with pytest.raises(SourceError, match="ConnectError"):
        download(source, tmp_path / "a.pdf", attempts=3, wait=waits.append)
    assert waits == [2.0, 4.0]


def test_ids_are_fit_for_file_names_and_unique():
    assert unique_ids(["a b", "a/b", "A-B", "", "Ünï"]) == ["a-b", "a-b-2", "A-B-3", "paper", "n"]


def test_a_folder_gives_its_pdfs_in_order(tmp_path):
    for name in ("b.pdf", "sub/a.PDF", "sub/b.pdf", "notes.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(DATA)
    assert [s.id for s in from_directory(tmp_path)] == ["b", "a", "b-2"]
    with pytest.raises(SourceError, match="is not a folder"):
        from_directory(tmp_path / "b.pdf")
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match=r"no \*\.pdf file below"):
        from_directory(tmp_path / "empty")


def test_manifests_as_json_lines_and_as_table(tmp_path):
    lines, table = tmp_path / "m.jsonl", tmp_path / "m.tsv"
    lines.write_text(f'{{"url": "https://x.org/p/one.pdf?dl=1", "sha256": "{SHA}", "license": "CC0"}}\n')
    table.write_text(f"id\turl\tsha256\ttitle\nmine\thttps://x.org/two.pdf\t{SHA.upper()}\tTwo\n")
    assert from_manifest(lines) == [Source("one", "https://x.org/p/one.pdf?dl=1", SHA, "", "CC0")]
    assert from_manifest(table) == [Source("mine", "https://x.org/two.pdf", SHA, "Two")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"url": "https://x.org/a.pdf"}', ":1: 'sha256' is missing"),
        (f'{{"url": "ftp://x", "sha256": "{SHA}"}}', "does not start with http"),
        ('{"url": "https://x", "sha256": "abc"}', "is not 64 hexadecimal digits"),
        ("[1]", "expected an object"),
        ("{", ":1: not JSON"),
        (f'{{"url": "http://", "sha256": "{SHA}"}}', "names no host"),
        (f'{{"url": "http://[::1/a.pdf", "sha256": "{SHA}"}}', "is no address"),
        (f'{{"url": "http://x.org:99999999/a.pdf", "sha256": "{SHA}"}}', "is no address"),
        ("[" * 100_000, ":1: not JSON"),
        ("", "lists no paper"),
    ],
)
def test_a_faulty_manifest_names_line_and_fault(text, said, tmp_path):
    path = tmp_path / "m.jsonl"
    path.write_text(text)
    with pytest.raises(SourceError) as caught:
        from_manifest(path)
    assert said in str(caught.value)


def test_a_manifest_of_any_bytes_is_told(tmp_path):
    for name in ("m.jsonl", "m.tsv"):
        path = tmp_path / name
        for data in (b"\xff\xfe\x00", b"\x00" * 100, b"url\tsha256\n" + b"x" * 200_000 + b"\ty\n", b"url\turl\n\n"):
            path.write_bytes(data)
            with pytest.raises(SourceError, match=name):
                from_manifest(path)


def test_a_line_separator_inside_a_title_ends_no_row(tmp_path):
    path = tmp_path / "m.jsonl"
    path.write_text(f'{{"url": "https://x.org/a.pdf", "sha256": "{SHA}", "title": "one\u2028two"}}\n')
    assert [source.title for source in from_manifest(path)] == ["one\u2028two"]


def test_long_names_give_ids_that_fit_and_differ():
    first, second = unique_ids(["n" * 250 + "a", "n" * 250 + "b"])
    assert first != second
    assert len(first) == len(second) == MAX_ID
    assert unique_ids(["n" * MAX_ID]) == ["n" * MAX_ID]


def test_whatever_is_called_pdf_is_accounted_for_and_nothing_hangs(tmp_path):
    """Links to nothing and to themselves, a pipe, names that are no UTF-8; a folder so named is only looked into."""
    (tmp_path / "folder.pdf").mkdir()
    (tmp_path / "folder.pdf" / "inner.pdf").write_bytes(DATA)
    (tmp_path / "broken.pdf").symlink_to("nowhere")
    (tmp_path / "self.pdf").symlink_to("self.pdf")
    (tmp_path / "up").symlink_to("..")
    os.mkfifo(tmp_path / "pipe.pdf")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff.pdf")).write_bytes(DATA)
    (tmp_path / "new\nline.pdf").write_bytes(DATA)
    found = from_directory(tmp_path)
    problems = {source.id: check(Path(source.location)) for source in found}
    told = {id: problem and (problem.kind, problem.detail) for id, problem in problems.items()}
    assert told == {
        "bad": None,
        "broken": ("missing", "a link to nothing"),
        "inner": None,
        "new-line": None,
        "pipe": ("missing", "not a regular file"),
        "self": ("missing", "a link to nothing"),
    }
    for source in found:
        shown(source.location).encode()
