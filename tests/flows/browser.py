"""Headless Chromium through its DevTools protocol: open a page, wait for text, click, take a picture."""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
from websockets.sync.client import ClientConnection, connect


def find() -> str | None:
    """The path of a Chromium, if there is one."""
    return next(
        (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
    )


class Page:
    """One tab."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._count = 0

    def call(self, method: str, **params: Any) -> Any:
        self._count += 1
        self._connection.send(json.dumps({"id": self._count, "method": method, "params": params}))
        while True:
            reply = json.loads(self._connection.recv(timeout=60))
            if reply.get("id") == self._count:
                assert "error" not in reply, reply
                return reply["result"]

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression."""
        return self.call("Runtime.evaluate", expression=script, returnByValue=True)["result"].get("value")

    def open(self, address: str) -> None:
        self.call("Page.navigate", url=address)

    def text(self) -> str:
        return str(self.run("document.body ? document.body.innerText : ''"))

    def wait_for(self, *words: str, seconds: float = 120) -> str:
        """The page's text once it holds all words."""
        deadline = time.monotonic() + seconds
        while not all(word in (text := self.text()) for word in words):
            assert time.monotonic() < deadline, f"the page never showed {words}; it shows:\n{text[:3000]}"
            time.sleep(0.5)
        return text

    def click(self, label: str) -> None:
        """Click the innermost element whose whole text is `label`."""
        find_it = (
            "(() => { const all = [...document.querySelectorAll('*')].filter(e => e.innerText && "
            f"e.innerText.trim() === {json.dumps(label)}); const last = all[all.length - 1]; "
            "if (last) last.click(); return !!last; })()"
        )
        assert self.run(find_it), f"nothing on the page reads '{label}':\n{self.text()[:3000]}"

    def picture(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))


@contextlib.contextmanager
def page(profile: Path, *, width: int = 1400, height: int = 1000) -> Iterator[Page]:
    """A tab of a browser of its own, which ends with the block. `profile` is a new folder for it."""
    program = find()
    assert program is not None
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-port=0"]
    command = [program, *options, f"--user-data-dir={profile}", f"--window-size={width},{height}", "about:blank"]
    browser = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        told = profile / "DevToolsActivePort"
        deadline = time.monotonic() + 120
        while not (told.exists() and told.read_text().strip()):
            assert browser.poll() is None and time.monotonic() < deadline, "the browser did not start"
            time.sleep(0.2)
        port = told.read_text().split()[0]
        tabs = httpx.get(f"http://127.0.0.1:{port}/json/list", timeout=30).json()
        address = next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page")
        with connect(address, max_size=None, open_timeout=60) as connection:
            yield Page(connection)
    finally:
        browser.kill()
        browser.wait()
