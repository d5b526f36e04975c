"""The pages as headless Chromium shows them: quiet console, no sideways scrolling on a phone, readable in light and dark."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rlm_core.evaluation.report import render_report
from rlm_core.evaluation.report.judge_page import render_judge_page
from tests.stubs.report import data, judge_report

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine to show the page in")

WIDTHS = (360, 414, 768, 1280)
LEAST_CONTRAST = 4.5
"""WCAG 2.1, AA, for text."""

FRAME = """<!doctype html><meta charset="utf-8"><body>
<iframe id="f" src="report.html" width="1280" height="900"></iframe><pre id="out"></pre><script>
const channels = c => c.match(/[\\d.]+/g).map(Number);
const light = c => { const [r, g, b] = c.map(v => (v /= 255, v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4));
  return .2126 * r + .7152 * g + .0722 * b; };
const over = (top, under) => { const a = top[3] ?? 1; return [0, 1, 2].map(i => top[i] * a + under[i] * (1 - a)); };
function ground(node, view) {
  const layers = [];
  for (; node; node = node.parentElement) layers.unshift(channels(view.getComputedStyle(node).backgroundColor));
  return layers.reduce((under, layer) => over(layer, under), [255, 255, 255]);
}
document.getElementById("f").onload = async event => {
  const frame = event.target, doc = frame.contentDocument, view = frame.contentWindow, found = {wide: [], dim: []};
  doc.querySelectorAll("details").forEach(d => d.open = true);
  for (const width of WIDTHS) {
    frame.width = width;
    await new Promise(done => setTimeout(done, 50));
    if (doc.documentElement.scrollWidth <= width) continue;
    found.wide.push([width, "page", doc.documentElement.scrollWidth]);
    for (const node of doc.querySelectorAll("body *"))
      if (!node.closest(".scroll, nav, svg") && node.getBoundingClientRect().right > width)
        found.wide.push([width, node.tagName, node.className.toString(), node.textContent.slice(0, 40)]);
  }
  for (const node of doc.querySelectorAll("body *")) {
    const text = [...node.childNodes].filter(n => n.nodeType === 3).map(n => n.data.trim()).join("");
    const style = view.getComputedStyle(node);
    if (!text || style.display === "none" || node.tagName.toLowerCase() === "style") continue;
    const paper = ground(node, view), ink = over(channels(node.ownerSVGElement ? style.fill : style.color), paper);
    const [a, b] = [light(ink), light(paper)], ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < LEAST) found.dim.push([node.tagName, node.className.toString(), text.slice(0, 30), ratio]);
  }
  found.paper = ground(doc.body, view);
  document.getElementById("out").textContent = "RESULT" + JSON.stringify(found) + "END";
};
</script>"""


def shown(folder: Path, page: str, *, dark: bool) -> tuple[dict[str, Any], list[str]]:
    """What the page measures in its frame, and the lines of the console."""
    (folder / "report.html").write_text(page)
    script = FRAME.replace("WIDTHS", json.dumps(WIDTHS)).replace("LEAST)", f"{LEAST_CONTRAST})")
    (folder / "frame.html").write_text(script)
    assert BROWSER is not None
    command = [
        BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}",
        "--allow-file-access-from-files", "--enable-logging=stderr", "--window-size=1400,1000",
        f"--blink-settings=preferredColorScheme={0 if dark else 1}", "--virtual-time-budget=8000", "--dump-dom",
        (folder / "frame.html").as_uri(),
    ]  # fmt: skip
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    found = re.search(r"RESULT(.*?)END</pre>", run.stdout, re.DOTALL)
    assert found, run.stdout[-500:]
    return json.loads(html.unescape(found[1])), [line for line in run.stderr.splitlines() if "CONSOLE" in line]


PAGES = {"report": lambda: render_report(data()), "judge": lambda: render_judge_page(judge_report())}


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("dark", [False, True])
def test_the_page_is_quiet_narrow_enough_and_readable(tmp_path, dark, page):
    found, console = shown(tmp_path, PAGES[page](), dark=dark)
    assert console == []
    assert found["wide"] == []
    assert found["dim"] == []
    assert (sum(found["paper"]) < 200) is dark  # the scheme was really taken up
