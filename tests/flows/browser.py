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


PATIENCE_SECONDS = 60.0
"""Longest wait for the browser's answer."""


class Page:
    """One tab."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._count = 0
        self._events: list[dict[str, Any]] = []
        for domain in ("Runtime", "Log", "Page"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> Any:
        self._count += 1
        self._connection.send(json.dumps({"id": self._count, "method": method, "params": params}))
        while True:
            reply = json.loads(self._connection.recv(timeout=PATIENCE_SECONDS))
            if "method" in reply:
                self._events.append(reply)
            elif reply["id"] == self._count:
                assert "error" not in reply, reply
                return reply["result"]

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression."""
        return self.call("Runtime.evaluate", expression=script, returnByValue=True)["result"].get("value")

    def open(self, address: str) -> None:
        self._events.clear()
        self.call("Page.navigate", url=address)

    def faults(self) -> list[str]:
        """Errors in the console and exceptions of scripts since the page was opened."""
        self.run("0")  # what came before its reply has been read then
        return [told for event in self._events if (told := _fault(event))]

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
        """Click the last of the innermost elements whose whole text is `label`."""
        self.press(f"[...document.querySelectorAll('*')].findLast(e => e.innerText?.trim() === {json.dumps(label)})")

    def press(self, element: str) -> None:
        """Click the element that a JavaScript expression gives."""
        pressed = self.run(f"(() => {{ const it = {element}; it?.click(); return !!it; }})()")
        assert pressed, f"no {element} on the page:\n{self.text()[:3000]}"

    def write(self, element: str, text: str) -> None:
        """Replace what stands in an input, as keys would."""
        found = self.run(
            f"(() => {{ const it = {element}; it?.scrollIntoView({{block: 'center'}}); it?.focus(); it?.select(); "
            "return !!it && document.activeElement === it; })()"
        )
        assert found, f"no input {element} on the page:\n{self.text()[:3000]}"
        self.call("Input.insertText", text=text)

    def choose(self, element: str, value: str) -> None:
        """Choose an option of a `<select>`."""
        chosen = self.run(
            f"(() => {{ const it = {element}; it.value = {json.dumps(value)}; "
            "it.dispatchEvent(new Event('change', {bubbles: true})); return it.value; })()"
        )
        assert chosen == value, f"{element} has no option '{value}'"

    def picture(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))


def _fault(event: dict[str, Any]) -> str | None:
    told = event["params"]
    match event["method"]:
        case "Runtime.exceptionThrown":
            return str(told["exceptionDetails"].get("exception", {}).get("description", told))
        case "Runtime.consoleAPICalled" if told["type"] == "error":
            return " ".join(str(part.get("value", part.get("description"))) for part in told["args"])
        case "Log.entryAdded" if told["entry"]["level"] == "error":
            return f"{told['entry']['text']} {told['entry'].get('url', '')}"
    return None


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
