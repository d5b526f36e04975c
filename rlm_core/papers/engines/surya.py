"""Surya 2 behind an OpenAI-compatible server (vLLM or llama.cpp): one vision model reads a whole page into labelled blocks.

The server runs in its own image, for surya's pins conflict with vLLM's. Code of surya is Apache-2.0; its **weights are under
a modified AI Pubs OpenRAIL-M licence**: free for research, personal use and companies under 5 million dollars of revenue
and funding; others need a licence from their makers.
"""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Callable
from html.parser import HTMLParser
from io import BytesIO
from typing import TYPE_CHECKING, Any

from rlm_core.papers.engines.base import EngineError, EngineSilent, UnreadablePage
from rlm_core.papers.layout import Piece

if TYPE_CHECKING:
    import numpy as np

PROMPT = "OCR this image to HTML. Each block is a div with data-label and data-bbox (x0 y0 x1 y1, normalized 0-1000)."
"""Word for word what the model was trained on; another wording gives another format."""

KINDS = {
    "Text": "body",
    "List-Group": "body",
    "Section-Header": "heading",
    "Caption": "caption",
    "Footnote": "footnote",
    "Table": "table",
    "Form": "table",
    "Bibliography": "reference",
    "Equation-Block": "other",
    "Code-Block": "other",
    "Chemical-Block": "other",
    "Complex-Block": "other",
    "Table-Of-Contents": "other",
}
"""Labels of the model and what they are here. Headers, footers and pictures are left out."""

PAGE_SECONDS = 600.0
MAX_TOKENS = 12_288
ATTEMPTS = 4


class SuryaEngine:
    """Client of a running server; its address is e.g. http://host:8000/v1."""

    name = "surya"

    def __init__(self, url: str, *, wait: Callable[[float], None] = time.sleep, transport: Any = None) -> None:
        import httpx

        self._url = url.rstrip("/")
        self._wait = wait
        self._client = httpx.Client(timeout=PAGE_SECONDS, transport=transport)
        answer = self._ask("GET", "/models")
        models = [row["id"] for row in answer.get("data", ()) if isinstance(row, dict) and "id" in row]
        if not models:
            raise EngineError(f"{self._url}/models lists no model; start the server with surya's weights")
        self.version = str(models[0])
        self.settings: dict[str, Any] = {"max_tokens": MAX_TOKENS}

    def read(self, image: np.ndarray) -> list[Piece]:
        from PIL import Image

        buffer = BytesIO()
        Image.fromarray(image).save(buffer, "PNG")
        data = base64.b64encode(buffer.getvalue()).decode("ascii")
        answer = self._ask(
            "POST",
            "/chat/completions",
            {
                "model": self.version,
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}},
                            {"type": "text", "text": PROMPT},
                        ],
                    }
                ],
                "max_tokens": MAX_TOKENS,
                "temperature": 0.0,
            },
        )
        try:
            choice = answer["choices"][0]
            html = choice["message"]["content"] or ""
        except (KeyError, IndexError, TypeError):
            raise UnreadablePage(f"surya's answer has no choices: {str(answer)[:200]}") from None
        if choice.get("finish_reason") == "length":
            raise UnreadablePage(
                f"surya's answer was cut at {MAX_TOKENS} tokens: the model repeats itself on this page"
            )
        return read_blocks(html, image.shape[1], image.shape[0])

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        import httpx

        trouble = ""
        for attempt in range(ATTEMPTS):
            if attempt:
                self._wait(2.0**attempt)
            try:
                answer = self._client.request(method, self._url + path, json=body)
            except httpx.HTTPError as error:
                trouble = f"{type(error).__name__}: {error}"
                continue
            if answer.status_code == 429 or answer.status_code >= 500:
                trouble = f"status {answer.status_code}"
                continue
            if answer.status_code != 200:
                raise EngineError(
                    f"{self._url}{path}: status {answer.status_code}: {answer.text[:200]}; check ocr.surya_url"
                )
            try:
                parsed = answer.json()
            except ValueError:
                trouble = f"not JSON: {answer.text[:100]!r}"
                continue
            if isinstance(parsed, dict):
                return parsed
            trouble = f"expected a JSON object, got {type(parsed).__name__}"
        raise EngineSilent(
            f"{self._url}{path}: {trouble} after {ATTEMPTS} attempts; is the surya server up at ocr.surya_url?"
        )


def read_blocks(html: str, width: int, height: int) -> list[Piece]:
    """The model's labelled blocks in reading order, in pixels of an image of this size; `kind` says what each label means."""
    parser = _Blocks()
    parser.feed(html)
    parser.close()
    pieces = []
    for label, box, text in parser.blocks:
        if text and label in KINDS:
            x0, top, x1, bottom = (
                value / 1000 * side for value, side in zip(box, (width, height, width, height), strict=True)
            )
            pieces.append(Piece(text, x0, top, x1, bottom, bottom - top, kind=KINDS[label]))
    return pieces


class _Blocks(HTMLParser):
    """Collects (label, box, text) of every div with a box; tags inside are dropped, breaks and items become spaces."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.blocks: list[tuple[str, tuple[float, ...], str]] = []
        self._depth = 0
        self._open: tuple[str, tuple[float, ...]] | None = None
        self._text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        box = re.findall(r"\d+(?:\.\d+)?", values.get("data-bbox") or "")
        if tag == "div" and len(box) == 4:
            self._finish()
            self._open, self._depth = (values.get("data-label") or "Text", tuple(map(float, box))), 0
        elif tag == "div":
            self._depth += 1
        if tag in ("br", "li", "tr", "p", "td", "th", "h1", "h2", "h3", "h4", "h5"):
            self._text.append("\n• " if tag == "li" else " ")

    def handle_endtag(self, tag: str) -> None:
        if tag == "div":
            if self._depth == 0:
                self._finish()
            self._depth = max(0, self._depth - 1)

    def handle_data(self, data: str) -> None:
        if self._open is not None:
            self._text.append(data)

    def close(self) -> None:
        super().close()
        self._finish()

    def _finish(self) -> None:
        if self._open is not None:
            self.blocks.append((*self._open, " ".join("".join(self._text).split())))
        self._open, self._text = None, []
