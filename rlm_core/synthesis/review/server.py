"""The server of the review page: on the loopback only, for this page only.

A request is answered when its Host is this server's own address, so that a name that resolves to 127.0.0.1 leads nowhere;
a mark is taken when its Origin, if any, is this page and it carries the page's token, so that no other page can send one.
"""

from __future__ import annotations

import functools
import json
import logging
import secrets
import threading
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from rlm_core.papers.records import Paper
from rlm_core.records import Query
from rlm_core.synthesis.marks import MAX_WORD, Mark, add_mark, read_marks
from rlm_core.synthesis.review.page import Shown, render
from rlm_core.synthesis.review.places import Box, Place, page_image, page_size, place_of

log = logging.getLogger("rlm.review")

MAX_BODY = 10_000
"""Bytes of a mark."""


class ReviewServer(ThreadingHTTPServer):
    """Serves until `shutdown`; every mark is on disk before its reply is sent.

    `pdfs`: the folder of ID.pdf files; a paper without one is shown as text.
    """

    daemon_threads = True

    def __init__(
        self,
        queries: Sequence[Query],
        *,
        clean: Mapping[str, Paper],
        parsed: Mapping[str, Paper],
        pdfs: Path,
        marks: Path,
        port: int = 0,
    ) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.queries = {query.id: query for query in queries}
        self.token = secrets.token_urlsafe(16)
        self._clean, self._parsed, self._pdfs, self._marks = clean, parsed, pdfs, marks
        self._places: dict[tuple[str, int], Place | None] = {
            (query.id, number): place_of(evidence, clean.get(evidence.paper_id), parsed.get(evidence.paper_id))
            for query in queries
            for number, evidence in enumerate(query.evidence)
        }
        self._writing = threading.Lock()
        self._drawing = threading.Lock()
        self.image = functools.lru_cache(maxsize=64)(self._draw)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"

    def page(self, nonce: str) -> str:
        rows = [(query, self._shown(query)) for query in self.queries.values()]
        return render(rows, read_marks(self._marks), token=self.token, nonce=nonce)

    def _shown(self, query: Query) -> list[Shown]:
        shown = []
        for number, evidence in enumerate(query.evidence):
            place = self._places[query.id, number]
            paper = self._parsed.get(evidence.paper_id) or self._clean.get(evidence.paper_id)
            image = f"/page/{query.id}/{number}.png"
            boxes = self._percent(evidence.paper_id, place) if place else None
            shown.append(
                Shown(
                    evidence.paper_id,
                    paper.title if paper else "",
                    evidence.text,
                    place.page if place else None,
                    image if boxes is not None else None,
                    boxes or (),
                )
            )
        return shown

    def _pdf(self, paper_id: str) -> Path | None:
        """The paper's PDF; an id is a name in the folder, never a path out of it."""
        path = self._pdfs / f"{paper_id}.pdf"
        return path if path.parent == self._pdfs and path.is_file() else None

    def _percent(self, paper_id: str, place: Place) -> tuple[Box, ...] | None:
        """The place's boxes in percent of the page; None when there is no page to draw."""
        if (pdf := self._pdf(paper_id)) is None:
            return None
        try:
            with self._drawing:
                width, height = page_size(pdf, place.page)
        except ValueError as error:
            log.warning("%s", error)
            return None
        return tuple(
            (100 * x0 / width, 100 * top / height, 100 * (x1 - x0) / width, 100 * (bottom - top) / height)
            for x0, top, x1, bottom in place.boxes
        )

    def _draw(self, query_id: str, number: int) -> bytes | None:
        """The page of a passage as PNG; None when there is none. PDFium takes one caller at a time."""
        place = self._places.get((query_id, number))
        pdf = self._pdf(self.queries[query_id].evidence[number].paper_id) if place else None
        if place is None or pdf is None:
            return None
        with self._drawing:
            return page_image(pdf, place.page)

    def take(self, row: Any) -> str:
        """Keep a mark; returns what is wrong with it, empty when it was kept."""
        if not isinstance(row, dict) or not isinstance(row.get("query_id"), str) or row["query_id"] not in self.queries:
            return "no such question on this page"
        verdict, word = row.get("verdict"), row.get("word", "")
        if verdict not in ("good", "bad") or not isinstance(word, str) or len(word) > MAX_WORD:
            return f"a mark is good or bad, with a word of at most {MAX_WORD} characters"
        with self._writing:
            query = self.queries[row["query_id"]]
            add_mark(self._marks, Mark(query.id, verdict, " ".join(word.split()), query.question))
        return ""


class _Handler(BaseHTTPRequestHandler):
    server: ReviewServer
    protocol_version = "HTTP/1.1"
    timeout = 60

    def do_GET(self) -> None:
        if not self._own_host():
            self._text(403, "this server answers to its own address only")
        elif self.path == "/":
            nonce = secrets.token_urlsafe(16)
            policy = (
                f"default-src 'none'; img-src 'self'; connect-src 'self'; style-src 'nonce-{nonce}'; "
                f"script-src 'nonce-{nonce}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
            )
            self._send(200, self.server.page(nonce).encode(), "text/html; charset=utf-8", policy)
        elif self.path.startswith("/page/"):
            self._image()
        else:
            self._text(404, "not here")

    def _image(self) -> None:
        query_id, _, name = self.path.removeprefix("/page/").partition("/")
        number = name.removesuffix(".png")
        query = self.server.queries.get(query_id)
        if query is None or not number.isascii() or not number.isdigit() or int(number) >= len(query.evidence):
            self._text(404, "no such page")
            return
        try:
            image = self.server.image(query_id, int(number))
        except ValueError as error:
            self._text(500, str(error))
            return
        if image is None:
            self._text(404, "no PDF of this paper is at hand")
        else:
            self._send(200, image, "image/png")

    def do_POST(self) -> None:
        origin = self.headers.get("Origin")
        length = self.headers.get("Content-Length", "")
        given = self.headers.get("X-Review-Token", "")
        self.close_connection = True  # what is refused may have a body that nobody reads
        if not self._own_host() or (origin is not None and origin + "/" not in self._addresses()):
            self._text(403, "marks are taken from this server's own page only")
        elif not secrets.compare_digest(given.encode("utf-8", "replace"), self.server.token.encode()):
            self._text(403, "this page is of an earlier run: load it again")
        elif self.path != "/marks":
            self._text(404, "not here")
        elif not length.isascii() or not length.isdigit() or int(length) > MAX_BODY:
            self._text(413, f"a mark takes at most {MAX_BODY} bytes")
        else:
            try:
                row = json.loads(self.rfile.read(int(length)))
            except ValueError:
                self._text(400, "not JSON")
                return
            problem = self.server.take(row)
            self._text(400 if problem else 200, problem or "kept")

    def _addresses(self) -> tuple[str, str]:
        return self.server.url, self.server.url.replace("127.0.0.1", "localhost")

    def _own_host(self) -> bool:
        return f"http://{self.headers.get('Host', '')}/" in self._addresses()

    def _text(self, status: int, text: str) -> None:
        self._send(status, text.encode(), "text/plain; charset=utf-8")

    def _send(self, status: int, body: bytes, kind: str, policy: str = "default-src 'none'") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", policy)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cache-Control", "no-store")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        log.debug(format, *args)
